//! `fetch` and `fetch_url`: which servers scripts reach, and what a server can do to them. The internet is made of servers in this
//! process.

mod certificates;
mod nearby;
mod reach;
mod scene;
mod servers;

pub(crate) use self::certificates::{Authority, MACHINE, fetch_with_machine_authorities};
use crate::Test;

pub(crate) const TESTS: &[Test] = &[
    ("fetch_reaches_a_server", reach::reaches),
    ("fetch_is_off_by_default", reach::off_by_default),
    ("fetch_follows_the_policy", reach::policy),
    ("fetch_refuses_nearby_addresses", nearby::nearby),
    ("fetch_refuses_names_of_nearby_addresses", nearby::nearby_names),
    ("fetch_refuses_redirects_to_nearby_addresses", nearby::nearby_redirects),
    ("fetch_refuses_a_name_that_moves", nearby::rebinding),
    ("fetch_follows_redirects", reach::redirects),
    ("fetch_limits_bodies", servers::bodies),
    ("fetch_ends_in_time", servers::times),
    ("fetch_survives_bad_servers", servers::bad_servers),
    ("fetch_injects_no_headers", servers::injection),
    ("fetch_decompresses_nothing", servers::compressed),
    ("fetch_verifies_certificates", certificates::certificates),
    ("fetch_trusts_the_authorities_of_the_machine", certificates::authorities_of_the_machine),
    ("fetch_masks_secrets", servers::masks),
    ("fetch_ends_with_its_script", servers::ends),
    ("fetch_runs_a_few_at_once", servers::at_once),
];
