//! What a sandbox may exchange with each host.

use koze_core::Provider;
use koze_core::egress::Limits;

use super::scene::{Scene, bearer};
use crate::Test;
use crate::stage::{id, out, settings, sh, within};

pub(crate) const TESTS: &[Test] = &[("egress_within_limits", egress_within_limits)];

/// Each host has limits of its own. They start at zero when the sandbox is started again.
fn egress_within_limits() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = Scene::new();
        let mut settings = settings();
        settings.profile.internet = true;
        settings.profile.credentials = vec![bearer("API_KEY", "api.example")];
        settings.profile.limits = Limits { requests: Some("2/h".into()), bytes: Some("40KB".into()) };
        let sandbox = scene.local.open(&id("a"), &settings).await.unwrap().sandbox;
        let get = |url: &str| format!("curl -sS -w '%{{http_code}}' {url}");
        let mut answers = Vec::new();
        for url in ["https://api.example/a", "https://api.example/b", "https://api.example/c"] {
            answers.push(out(&sandbox, &get(url)).await);
        }
        assert!(answers[0].ends_with("200") && answers[1].ends_with("200"), "{answers:?}");
        let expected = "this sandbox has reached its limit of requests for api.example, `2/h`: try again in ";
        assert!(answers[2].contains(expected) && answers[2].ends_with("429"), "{answers:?}");
        assert_eq!(scene.received().matches("GET /").count(), 2);
        // Without TLS.
        for wanted in ["200", "200", "429"] {
            let answer = out(&sandbox, &get("-o /dev/null http://plain.example/echo")).await;
            assert_eq!(answer, wanted);
        }
        // The bytes of a tunnel, whose content nobody reads.
        let upload =
            "curl -sSk -m 20 -H \"X-Long: $(head -c 60000 /dev/zero | tr '\\0' x)\" https://other.example/";
        let cut = sh(&sandbox, upload).await;
        assert_ne!(cut.exit_code, 0, "{cut:?}");
        let next = sh(&sandbox, "curl -sSk https://other.example/").await;
        let stderr = String::from_utf8_lossy(&next.stderr).into_owned();
        assert!(next.exit_code != 0 && stderr.contains("429"), "{stderr}");
        let journal = scene.journal();
        for rule in ["false limits: requests 2/h", "false limits: bytes 40KB"] {
            assert!(journal.contains(rule), "{journal}");
        }
        sandbox.sleep().await.unwrap();
        assert!(out(&sandbox, &get("https://api.example/d")).await.ends_with("200"));
    })
}
