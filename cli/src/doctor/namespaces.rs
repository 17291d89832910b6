//! Checks of what sandboxes of Linux namespaces find on this machine.

use koze_core::provider::Profile;
use koze_core::tool::programs::Programs;
use koze_local::{Groups, Network};

use super::Check;
use crate::provider;

/// Reports if sandboxes can read files that only one of the user's groups may read; `None` if groups are dropped. This
/// is not a warning, because it describes the machine and `--strict` judges the project.
pub(crate) fn check_groups() -> Option<Check> {
    describe_groups(koze_local::groups())
}

fn describe_groups(groups: Groups) -> Option<Check> {
    let remedy = match groups {
        Groups::Dropped => return None,
        Groups::NoHelper => "install `newgidmap` (Debian's and Ubuntu's package is `uidmap`)",
        Groups::NoSubordinate => {
            "give yourself a range in /etc/subgid that nobody else has (`usermod --add-subgids`)"
        }
    };
    let found = "your supplementary groups stay in effect in sandboxes on this machine; to have them dropped";
    Some(Check::ok("groups", format!("{found}, {remedy}")))
}

/// Says which programs in sandboxes on this machine reach the hosts that their policy allows. `None` without a sandbox that has a network.
pub(crate) fn check_network(profiles: &[&Profile]) -> Option<Check> {
    let has_network = |profile: &&&Profile| profile.internet || !profile.allowed_hosts.is_empty();
    profiles.iter().find(has_network)?;
    let found = koze_state::block_on(koze_local::check_network()).and_then(|found| found);
    Some(match found {
        Ok(network) => describe_network(&network),
        Err(error) => Check::warning(
            "network",
            format!("the network of sandboxes on this machine cannot be checked: {}", error.message),
            "run `koze doctor --prove`, which starts sandboxes",
        ),
    })
}

/// Describes the network. This is no warning, as for groups.
fn describe_network(network: &Network) -> Check {
    let found = match network {
        Network::Redirected => {
            "all programs in sandboxes on this machine reach the hosts that their policy allows, also those that use no proxy".to_owned()
        }
        Network::ProxyOnly(error) => format!(
            "the kernel refused to redirect connections of sandboxes on this machine ({error}): only programs that read `HTTP_PROXY` and \
             `HTTPS_PROXY` reach the hosts that their policy allows; to change that, load the modules of nftables: `modprobe -a nf_tables \
             nft_chain_nat nft_ct nft_redir nft_reject_inet nft_connlimit`"
        ),
    };
    Check::ok("network", found)
}

/// Says which sandboxes on this machine have the files of their image, and which its programs. `None` without sandboxes.
pub(crate) fn check_images(profiles: &[&Profile]) -> Option<Check> {
    describe_images(profiles, &provider::find_programs(profiles.iter().copied()))
}

fn describe_images(profiles: &[&Profile], programs: &Programs) -> Option<Check> {
    let (stored, missing): (Vec<&Profile>, Vec<&Profile>) =
        profiles.iter().copied().partition(|profile| programs.images.contains(&profile.reference));
    let names = |profiles: &[&Profile]| {
        profiles.iter().map(|profile| format!("`{}`", profile.name)).collect::<Vec<_>>().join(", ")
    };
    let found = match (stored.is_empty(), missing.is_empty()) {
        (true, true) => return None,
        (false, true) => {
            format!("new sandboxes on this machine have the files of their images: {}", names(&stored))
        }
        (_, false) => format!(
            "new sandboxes on this machine have its programs ({}) in place of those of their images: {}; `koze image pull` stores \
             images of registries, and `koze image build` those of Dockerfiles",
            programs.list_versions(),
            missing.iter().map(|profile| describe_missing(profile, programs)).collect::<Vec<_>>().join(", ")
        ),
    };
    Some(Check::ok("local", found))
}

/// Returns the name of a profile, and what its image has in place of the machine's programs.
fn describe_missing(profile: &Profile, programs: &Programs) -> String {
    let difference = programs.find_difference(&profile.reference);
    let has = difference.map(|difference| format!(" ({difference})")).unwrap_or_default();
    format!("`{}`{has}", profile.name)
}

/// Checks whether this machine has the browser of scripts.
pub(crate) fn check_browser() -> Check {
    match (koze_local::check_browser(), koze_local::browser_hint()) {
        (Ok(()), Some(help)) => {
            Check::warning("browser", "Chromium, which does not trust the authorities of this machine", help)
        }
        (Ok(()), None) => Check::ok("browser", "Chromium, for scripts on this machine"),
        (Err(error), _) => {
            Check::warning("browser", "no Chromium, which `browser = true` needs", error.message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

    #[test]
    fn images_are_compared_with_the_store() {
        let profile = |name: &str| {
            Profile::new(
                name,
                format!("{name}:1"),
                koze_core::provider::Size { memory_mib: 256, disk_mb: 2000 },
            )
        };
        let (python, node) = (profile("python"), profile("node"));
        let found = |images: &[&str]| {
            let images = images.iter().map(|&image| image.to_owned()).collect();
            let programs = Programs { python: Some("3.11.2".into()), node: None, images };
            describe_images(&[&python, &node], &programs).unwrap().found
        };
        let missing = "have its programs (Python 3.11.2, no Node) in place of those of their images: ";
        let all = format!("{missing}`python` (Python 1), `node` (Node 1);");
        assert!(found(&[]).contains(&all), "{}", found(&[]));
        assert!(found(&["node:1"]).contains(&format!("{missing}`python` (Python 1);")));
        assert!(found(&["node:1", "python:1"]).ends_with("the files of their images: `python`, `node`"));
        assert_eq!(describe_images(&[], &Programs::default()), None);
    }

    #[test]
    fn the_network_of_sandboxes() {
        let profile = |internet| {
            let size = koze_core::provider::Size { memory_mib: 256, disk_mb: 2000 };
            Profile { internet, ..Profile::new("shell", "shell:1", size) }
        };
        assert_eq!(check_network(&[&profile(false)]), None);
        let refused = Network::ProxyOnly(std::io::ErrorKind::Unsupported.into());
        let (all, some) = (describe_network(&Network::Redirected), describe_network(&refused));
        assert_eq!([all.status, some.status], [Status::Ok; 2]);
        assert!(some.found.contains("HTTPS_PROXY") && some.found.contains("modprobe"), "{}", some.found);
    }

    #[test]
    fn the_check_names_the_missing_tool() {
        assert_eq!(describe_groups(Groups::Dropped), None);
        for (groups, missing) in [(Groups::NoHelper, "newgidmap"), (Groups::NoSubordinate, "/etc/subgid")] {
            let check = describe_groups(groups).unwrap();
            assert_eq!(check.status, Status::Ok);
            assert!(check.found.contains(missing), "{}", check.found);
        }
    }
}
