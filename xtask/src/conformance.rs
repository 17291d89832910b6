//! `cargo xtask conformance`: runs the cases of the agent's tools against a running Worker.

use std::process::ExitCode;
use std::sync::Arc;

use koze_tests::conformance::Capability;
use koze_tests::conformance::http::{Http, Options, play};

use crate::Result;

/// The variable for the token. Arguments are visible to other users of the machine.
const TOKEN: &str = "KOZE_TOKEN";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The URL of the Worker, with a host name if previews are to work: `http://localhost:8787`
    #[arg(long)]
    url: String,
    /// Its bearer token [default: the environment variable `KOZE_TOKEN`]
    #[arg(long)]
    token: Option<String>,
    /// Run only the cases whose names contain this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// The number of cases to run in parallel; each has its own sandboxes
    #[arg(long, value_name = "N", default_value_t = 2)]
    at_once: usize,
    /// What the Worker does not support although it does not report it, such as `big,limits`; leave out the cases that need it
    #[arg(long, value_name = "CAPABILITY", value_delimiter = ',', value_parser = capability)]
    without: Vec<Capability>,
}

/// Runs the cases.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let token = args.token.clone().or_else(|| std::env::var(TOKEN).ok());
    let token = token.ok_or_else(|| format!("which token? Give it with `--token`, or in {TOKEN}"))?;
    let host = Http::new(&args.url, &token);
    let mut lacks = host.lacks()?;
    lacks.extend(args.without.iter().map(|capability| (*capability, "as `--without` says".to_owned())));
    let options =
        Options { lacks, filter: args.filter.clone(), at_once: Some(args.at_once), ..Options::default() };
    let host: Arc<dyn koze_tests::conformance::Host> = Arc::new(host);
    Ok(if play("worker", &host, &options) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn capability(word: &str) -> std::result::Result<Capability, String> {
    let name = |capability: &Capability| format!("{capability:?}").to_lowercase();
    let found = Capability::ALL.into_iter().find(|capability| name(capability) == word.to_lowercase());
    found.ok_or_else(|| {
        let all: Vec<String> = Capability::ALL.iter().map(name).collect();
        format!("no capability has this name: use one of {}", all.join(", "))
    })
}
