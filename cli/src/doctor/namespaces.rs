//! Checks of what sandboxes of Linux namespaces find on this machine.

use koze_local::Groups;

use super::Check;

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
    fn the_check_names_the_missing_tool() {
        assert_eq!(describe_groups(Groups::Dropped), None);
        for (groups, missing) in [(Groups::NoHelper, "newgidmap"), (Groups::NoSubordinate, "/etc/subgid")] {
            let check = describe_groups(groups).unwrap();
            assert_eq!(check.status, Status::Ok);
            assert!(check.found.contains(missing), "{}", check.found);
        }
    }
}
