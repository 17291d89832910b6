//! Images: the values of `image`, and the image that a sandbox runs.

use std::fmt;

/// The repository of the sandbox SDK's images. The registry's host must be part of it, or wrangler uses the account's
/// own registry.
pub const DEFAULT_REPOSITORY: &str = "docker.io/cloudflare/sandbox";

pub use koze_protocol::PLATFORM_IMAGE;

/// The variants of the default image.
pub const VARIANTS: [&str; 3] = ["python", "opencode", "musl"];

/// An image in an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Image {
    /// A registry reference with a tag or digest.
    Registry(String),
    /// The path of a Dockerfile, relative to the source file, with `/`.
    Dockerfile(String),
    /// An image of the platform, [`PLATFORM_IMAGE`], which needs no build and no registry.
    Platform,
}

impl Image {
    /// Returns it as it was written.
    pub fn text(&self) -> &str {
        match self {
            Image::Registry(text) | Image::Dockerfile(text) => text,
            Image::Platform => PLATFORM_IMAGE,
        }
    }

    /// Parses the value of `image`.
    ///
    /// A path starts with `./` or `../`, or its last component names a Dockerfile; everything else is a reference.
    ///
    /// # Errors
    /// Returns half a sentence that says why it is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("it is empty".to_owned());
        }
        if text == PLATFORM_IMAGE {
            return Ok(Image::Platform);
        }
        if text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
            return Err("it contains white space or `\\`".to_owned());
        }
        if text.contains("://") {
            return Err("it must not have a scheme".to_owned());
        }
        if text.starts_with('/') {
            return Err("an absolute path is valid on one machine only".to_owned());
        }
        let last = text.rsplit('/').next().unwrap_or(text);
        let dockerfile = !last.contains([':', '@']) && last.to_lowercase().contains("dockerfile");
        if text.starts_with("./") || text.starts_with("../") || dockerfile {
            return Ok(Image::Dockerfile(text.to_owned()));
        }
        check_reference(text)?;
        Ok(Image::Registry(text.to_owned()))
    }
}

/// Checks that a text is a registry reference with a tag or a digest.
fn check_reference(text: &str) -> Result<(), String> {
    let (name, digest) = match text.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (text, None),
    };
    if let Some(digest) = digest {
        let hex = digest.strip_prefix("sha256:").unwrap_or("");
        if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
            return Err("its digest is not `sha256:` and 64 hexadecimal digits".to_owned());
        }
    }
    let slash = name.rfind('/').map_or(0, |slash| slash + 1);
    let (repository, tag) = match name[slash..].find(':') {
        Some(colon) => (&name[..slash + colon], Some(&name[slash + colon + 1..])),
        None => (name, None),
    };
    match tag {
        None if digest.is_none() => return Err("it has no tag".to_owned()),
        Some("latest") => return Err("`latest` can change at any time".to_owned()),
        Some(tag) if !is_tag(tag) => return Err(format!("`{tag}` is not a valid tag")),
        _ => {}
    }
    if !is_repository(repository) {
        return Err(format!("`{repository}` is not a valid repository"));
    }
    Ok(())
}

fn is_tag(tag: &str) -> bool {
    (1..=128).contains(&tag.len())
        && !tag.starts_with(['.', '-'])
        && tag.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

/// Returns whether a text is `host[:port]/path/name`. The path is lower case; a first component with a dot or port is
/// the host.
fn is_repository(repository: &str) -> bool {
    let path = match repository.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => {
            if !is_host(host) {
                return false;
            }
            path
        }
        _ => repository,
    };
    path.split('/').all(|part| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.ends_with(|c: char| c.is_ascii_alphanumeric())
            && part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-'))
    })
}

fn is_host(text: &str) -> bool {
    let (name, port) = text.split_once(':').unwrap_or((text, "443"));
    !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'))
        && port.parse::<u16>().is_ok()
}

/// Where the image of a sandbox was configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageSource {
    /// The key `image`.
    Attribute,
    /// The key `variant`.
    Variant,
    /// The file `<base>.Dockerfile` next to the source.
    SiblingDockerfile,
    /// Nowhere: it is the default image.
    Default,
    /// A container entry in the wrangler configuration that existed before koze, with its own image.
    Configuration,
}

impl fmt::Display for ImageSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ImageSource::Attribute => "attribute",
            ImageSource::Variant => "variant",
            ImageSource::SiblingDockerfile => "sibling-dockerfile",
            ImageSource::Default => "default",
            ImageSource::Configuration => "configuration",
        })
    }
}

/// Returns the default image of an SDK version and optional variant.
pub fn default_image(sdk_version: &str, variant: Option<&str>) -> String {
    match variant {
        Some(variant) => format!("{DEFAULT_REPOSITORY}:{sdk_version}-{variant}"),
        None => format!("{DEFAULT_REPOSITORY}:{sdk_version}"),
    }
}

/// Returns whether koze may change the image's tag to another SDK version.
pub fn is_default_repository(image: &str) -> bool {
    let name =
        image.strip_prefix("docker.io/").or_else(|| image.strip_prefix("index.docker.io/")).unwrap_or(image);
    name.strip_prefix("cloudflare/sandbox").is_some_and(|rest| rest.starts_with([':', '@']))
}

/// Returns a reference with the registry of an official image of Docker Hub: without a host, wrangler uses the account's own
/// registry.
pub fn with_registry(reference: &str) -> String {
    if reference.contains('/') { reference.to_owned() } else { format!("docker.io/library/{reference}") }
}

/// Returns whether an image is an official one of Docker Hub, such as `python:3.12-slim`, which only has what its name says.
pub fn is_official(image: &str) -> bool {
    let hub = image.strip_prefix("docker.io/").or_else(|| image.strip_prefix("index.docker.io/"));
    let path = hub.unwrap_or(image);
    !path.strip_prefix("library/").unwrap_or(path).contains('/')
}

/// Returns the variant in a reference to the default image: `python` for `docker.io/cloudflare/sandbox:0.12.10-python`.
pub fn variant(image: &str) -> Option<&str> {
    let (_, tag) = image.split_once(':').filter(|_| is_default_repository(image))?;
    let (version, variant) = tag.split('@').next()?.split_once('-')?;
    let numbers = version.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    (numbers && VARIANTS.contains(&variant)).then_some(variant)
}

/// Returns whether an image's tag matches an SDK version: the version alone, or followed by a variant.
pub fn in_step(tag: &str, sdk_version: &str) -> bool {
    tag.strip_prefix(sdk_version).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '@']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_of_the_default_image_are_recognized() {
        assert_eq!(variant("docker.io/cloudflare/sandbox:0.12.10-python"), Some("python"));
        assert_eq!(variant("cloudflare/sandbox:0.8.11-musl@sha256:0"), Some("musl"));
        for image in [
            "docker.io/cloudflare/sandbox:0.12.10",
            "docker.io/cloudflare/sandbox:0.12.10-perl",
            "docker.io/cloudflare/sandbox:nightly-python",
            "docker.io/somebody/sandbox:0.12.10-python",
            "./x-python.Dockerfile",
        ] {
            assert_eq!(variant(image), None, "{image}");
        }
    }

    #[test]
    fn references_are_validated() {
        let digest = format!("docker.io/x/y@sha256:{}", "a".repeat(64));
        for good in [
            "docker.io/cloudflare/sandbox:0.12.10-python",
            "localhost:5000/x/y:1",
            "cloudflare/sandbox:1",
            "ubuntu:22.04",
            digest.as_str(),
        ] {
            assert_eq!(Image::parse(good), Ok(Image::Registry(good.to_owned())));
        }
        for (bad, why) in [
            ("", "it is empty"),
            ("docker.io/cloudflare/sandbox", "it has no tag"),
            ("localhost:5000/x", "it has no tag"),
            ("https://docker.io/x:1", "it must not have a scheme"),
            ("a b:1", "it contains white space or `\\`"),
            ("x/y:latest", "`latest` can change at any time"),
            ("x/y:", "`` is not a valid tag"),
            ("x//y:1", "`x//y` is not a valid repository"),
            ("X/y:1", "`X/y` is not a valid repository"),
            ("x@sha256:12", "its digest is not `sha256:` and 64 hexadecimal digits"),
            ("/abs/Dockerfile", "an absolute path is valid on one machine only"),
        ] {
            assert_eq!(Image::parse(bad), Err(why.to_owned()), "{bad}");
        }
    }

    #[test]
    fn official_images_are_recognized() {
        for image in ["python:3.12-slim", "docker.io/node:22", "index.docker.io/library/debian:12"] {
            assert!(is_official(image), "{image}");
        }
        for image in ["docker.io/cloudflare/sandbox:0.12.10", "me/sandbox:1", "registry.example/python:3"] {
            assert!(!is_official(image), "{image}");
        }
    }

    #[test]
    fn official_images_get_their_registry() {
        assert_eq!(with_registry("wordpress:6.8-apache"), "docker.io/library/wordpress:6.8-apache");
        for image in ["docker.io/nginx:1", "me/app:1", "localhost:5000/app:1"] {
            assert_eq!(with_registry(image), image);
        }
    }

    #[test]
    fn dockerfile_paths_are_recognized() {
        for good in ["./python.Dockerfile", "../Dockerfile", "Dockerfile", "images/Dockerfile.dev", "./x"] {
            assert_eq!(Image::parse(good), Ok(Image::Dockerfile(good.to_owned())));
        }
        assert_eq!(Image::parse("x/dockerfile:1"), Ok(Image::Registry("x/dockerfile:1".to_owned())));
    }

    #[test]
    fn versions_are_compared() {
        assert!(in_step("0.12.9-python", "0.12.9") && in_step("0.12.9@sha256:0", "0.12.9"));
        assert!(!in_step("0.12.9-python", "0.12.90") && !in_step("0.12.10", "0.12.1"));
    }
}
