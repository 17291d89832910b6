//! The browser of scripts: Chromium in its sandbox. The internet is made of servers in this process.

mod life;
mod pages;
mod previews;
mod reach;
mod remote;
mod scene;

use crate::Test;

pub(crate) const TESTS: &[Test] = &[
    ("browser_reads_pages", pages::reads),
    ("browser_clicks_and_types", pages::acts),
    ("browser_says_why_an_element_cannot_be_used", pages::elements),
    ("browser_waits_for_pages", pages::waits),
    ("browser_takes_pictures", pages::pictures),
    ("browser_is_off_by_default", reach::off_by_default),
    ("browser_follows_the_policy", reach::policy),
    ("browser_reaches_no_nearby_addresses", reach::nearby),
    ("browser_opens_previews", previews::opens),
    ("browser_opens_previews_of_its_session_only", previews::of_its_session),
    ("browser_opens_no_files", reach::files),
    ("browser_verifies_certificates", reach::certificates),
    ("browser_trusts_authorities_of_the_machine", reach::authorities),
    ("browser_limits_results", life::limits),
    (ONCE, life::endless),
    ("browser_survives_pages", life::survives),
    ("browser_survives_its_end", life::dies),
    ("browser_is_shared_within_an_agent", life::shared),
    ("browser_is_left_by_canceled_calls", life::canceled),
    ("browser_runs_one_call_at_a_time", life::at_once),
    ("browser_masks_secrets", life::masks),
    ("browser_ends", life::ends),
    ("browser_ends_when_it_is_idle", life::idle),
    ("browser_is_that_of_one_program", life::one_program),
    ("browser_serves_workers", remote::serves_workers),
];

/// Keeps two processors busy for half a minute.
const ONCE: &str = "browser_ends_scripts_of_pages";

/// Returns which tests are left out of a run, and prints why. `plain` is the run of the unprivileged user after that of root.
pub(crate) fn left_out(plain: bool) -> impl Fn(&str) -> bool {
    let missing = missing();
    if plain {
        eprintln!("{ONCE} is left out: root ran it, and it is about pages, not about users");
    }
    move |name| plain && name == ONCE || missing.is_some() && TESTS.iter().any(|(known, _)| *known == name)
}

/// Returns why this machine cannot run the tests, which are left out then. Continuous integration runs all of them.
fn missing() -> Option<String> {
    let missing = koze_local::check_browser().err()?.to_string();
    if std::env::var_os("CI").is_some() {
        return None;
    }
    eprintln!("the tests of the browser are left out: {missing}");
    Some(missing)
}
