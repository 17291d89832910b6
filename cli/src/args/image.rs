//! The command that works with the store of images.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::ListFormat;

/// `koze image`.
#[derive(Debug, Args)]
pub struct Image {
    /// What to do.
    #[command(subcommand)]
    pub action: ImageAction,
}

/// The actions of `koze image`.
#[derive(Debug, Subcommand)]
pub enum ImageAction {
    /// Download images from their registries and unpack them
    Pull {
        /// Take them from this engine of the machine instead, which has them
        #[arg(long, value_name = "ENGINE")]
        from: Option<ContainerEngine>,

        /// The images: a sandbox of the project, which means its images, or a reference such as `python:3.12-slim`
        /// [default: the images of all sandboxes of the project]
        #[arg(value_name = "NAME")]
        names: Vec<String>,

        /// The project.
        #[command(flatten)]
        place: ImageArgs,
    },
    /// Build the images that come from Dockerfiles, again if the Dockerfile, its context or its arguments changed
    Build {
        /// The sandboxes of the project whose images to build [default: all with a Dockerfile]
        #[arg(value_name = "NAME")]
        names: Vec<String>,

        /// What builds [default: the first of docker, podman and buildah that is there and answers, or else koze]
        #[arg(long, value_name = "ENGINE")]
        engine: Option<BuildEngine>,

        /// Let the programs of `RUN` reach a host, such as `pypi.org` or `*.debian.org`, if koze builds. Repeat it for several hosts
        #[arg(long, value_name = "HOST")]
        allow_host: Vec<String>,

        /// Let the programs of `RUN` reach the internet, if koze builds. Those of an engine have its network
        #[arg(long)]
        internet: bool,

        /// Build also what is up to date, and do not use what earlier builds left behind
        #[arg(long)]
        force: bool,

        /// The project.
        #[command(flatten)]
        place: ImageArgs,
    },
    /// List the images in the store
    List {
        /// Output for people, or one JSON document on standard output
        #[arg(long, value_name = "FORMAT", default_value = "human")]
        format: ListFormat,
    },
    /// Remove images, and the layers that no other image has
    Rm {
        /// The images: a sandbox of the project, which means its images, or a reference such as `python:3.12-slim`
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,

        /// The project.
        #[command(flatten)]
        place: ImageArgs,
    },
    /// Remove layers that no image has, and, if limits are given, the images that exceed them
    Prune {
        /// Remove the images that were not used for the longest time until the others take at most this much, such as `20GB` or
        /// `500MB`
        #[arg(long, value_name = "SIZE")]
        max_size: Option<String>,

        /// Remove the images that were not used for this long, such as `30d` or `12h`
        #[arg(long, value_name = "DURATION")]
        unused_for: Option<String>,
    },
    /// Add the images of a file: an archive of `docker save`, or an OCI layout as an archive or a directory
    Import {
        /// The file
        file: PathBuf,

        /// The name of the image, instead of the names in the file
        #[arg(long, value_name = "REFERENCE")]
        name: Option<String>,
    },
    /// Write an image to a file, as an archive of an OCI layout
    Export {
        /// The image: a sandbox of the project, or a reference such as `python:3.12-slim`
        name: String,

        /// The file to write, such as `image.tar`. An existing file is replaced
        file: PathBuf,

        /// The project.
        #[command(flatten)]
        place: ImageArgs,
    },
}

/// A container engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ContainerEngine {
    /// Docker
    Docker,
    /// Podman
    Podman,
    /// Buildah
    Buildah,
}

/// What builds images from Dockerfiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BuildEngine {
    /// Docker
    Docker,
    /// Podman
    Podman,
    /// Buildah
    Buildah,
    /// No engine: koze builds what it supports of Dockerfiles, and runs programs in a sandbox
    Koze,
}

/// The options that locate the project with the sandboxes.
#[derive(Debug, Clone, Args)]
pub struct ImageArgs {
    /// A directory in the package
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub project: PathBuf,

    /// The wrangler configuration [default: the file wrangler would read]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}
