//! `cargo xtask conformance`: runs the cases of the tools against a running Worker.

use std::process::ExitCode;
use std::sync::Arc;

use koze_tests::conformance::Capability;
use koze_tests::conformance::http::{Http, Options, Part, play_all};

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
    /// What the Worker supports although koze does not detect it, such as `limits`; run the cases that need it
    #[arg(long, value_name = "CAPABILITY", value_delimiter = ',', value_parser = capability)]
    with: Vec<Capability>,
}

/// Runs the cases of all families that the Worker serves, and reports the others with the reasons.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let token = args.token.clone().or_else(|| std::env::var(TOKEN).ok());
    let token = token.ok_or_else(|| format!("which token? Give it with `--token`, or in {TOKEN}"))?;
    let is_asked = |part: &Part| {
        args.filter.as_ref().is_none_or(|text| part.cases.iter().any(|case| case.name.contains(text)))
    };
    let mut played = 0;
    let mut is_good = true;
    for part in Http::new(&args.url, &token).parts()? {
        for (number, reason) in &part.left_out {
            println!("{}: {number} cases are left out: {reason}", part.family);
        }
        if part.cases.is_empty() || !is_asked(&part) {
            continue;
        }
        let mut lacks = part.lacks;
        lacks.retain(|(capability, _)| !args.with.contains(capability));
        lacks.extend(args.without.iter().map(|capability| (*capability, "as `--without` says".to_owned())));
        let options =
            Options { lacks, filter: args.filter.clone(), at_once: Some(args.at_once), ..Options::default() };
        let host: Arc<dyn koze_tests::conformance::Host> = Arc::new(part.host);
        is_good &= play_all(part.family, &host, part.cases, &options);
        played += 1;
    }
    if played == 0 {
        println!(
            "no case was played: the Worker serves none of the tools, or the filter fits none of the cases"
        );
    }
    Ok(if is_good && played > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn capability(word: &str) -> std::result::Result<Capability, String> {
    let name = |capability: &Capability| format!("{capability:?}").to_lowercase();
    let found = Capability::ALL.into_iter().find(|capability| name(capability) == word.to_lowercase());
    found.ok_or_else(|| {
        let all: Vec<String> = Capability::ALL.iter().map(name).collect();
        format!("no capability has this name: use one of {}", all.join(", "))
    })
}
