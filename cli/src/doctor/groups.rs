//! Checks the user's supplementary groups, which sandboxes on this machine may inherit.

use koze_local::{Groups, groups};

use super::Check;

const NAME: &str = "groups";

/// Reports if sandboxes can read files that only one of the user's groups may read; `None` if groups are dropped. This
/// is not a warning, because it describes the machine and `--strict` judges the project.
pub(crate) fn check() -> Option<Check> {
    to_check(groups())
}

fn to_check(groups: Groups) -> Option<Check> {
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
    fn the_check_names_the_missing_tool() {
        assert_eq!(to_check(Groups::Dropped), None);
        for (groups, missing) in [(Groups::NoHelper, "newgidmap"), (Groups::NoSubordinate, "/etc/subgid")] {
            let check = to_check(groups).unwrap();
            assert_eq!(check.status, Status::Ok);
            assert!(check.found.contains(missing), "{}", check.found);
        }
    }
}
