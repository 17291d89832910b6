//! The supplementary groups of the user, in sandboxes on this machine.

use koze_local::{Groups, groups};

use super::Check;

const NAME: &str = "groups";

/// Says where files that only one of the user's groups may read are readable in sandboxes; none where groups are dropped.
/// No warning: it is a fact about the machine, and `--strict` judges the project.
pub(super) fn check() -> Option<Check> {
    of(groups())
}

fn of(groups: Groups) -> Option<Check> {
    let remedy = match groups {
        Groups::Dropped => return None,
        Groups::NoHelper => "install `newgidmap` (Debian's and Ubuntu's package is `uidmap`)",
        Groups::NoSubordinate => {
            "give yourself a range in /etc/subgid that nobody else has (`usermod --add-subgids`)"
        }
    };
    let found = "your supplementary groups stay in effect in sandboxes on this machine; to have them dropped";
    Some(Check::ok(NAME, format!("{found}, {remedy}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

    #[test]
    fn a_check_says_what_is_missing() {
        assert_eq!(of(Groups::Dropped), None);
        for (groups, missing) in [(Groups::NoHelper, "newgidmap"), (Groups::NoSubordinate, "/etc/subgid")] {
            let check = of(groups).unwrap();
            assert_eq!(check.status, Status::Ok);
            assert!(check.found.contains(missing), "{}", check.found);
        }
    }
}
