//! Credentials of scripts: a script has a placeholder, and `fetch` sends the value.

use koze_core::egress::{Credential, Placement};
use koze_core::script::Egress;
use koze_core::{Profiles, Session, SessionId};
use serde_json::json;

use super::scene::{Scene, VALUE};
use crate::Test;
use crate::stage::within;

pub(crate) const TESTS: &[Test] = &[("credentials_of_scripts", credentials_of_scripts)];

fn credentials_of_scripts() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = Scene::new();
        let credential =
            Credential { name: "API_KEY".into(), host: "api.example".into(), placement: Placement::Bearer };
        let allowed_hosts = ["api.example", "other.example"].map(str::to_owned).to_vec();
        let profiles = Profiles::of_scripts()
            .with_script_egress(Egress { allowed_hosts, ..Egress::default() })
            .with_script_credentials(vec![credential]);
        let session =
            Session::new(scene.local.clone(), SessionId::new("tests", "scripts").unwrap(), profiles);
        let run = async |code: &str| {
            let reply = session.call_tool("run_sandbox_code", json!({ "code": code })).await;
            assert!(!reply.content.contains(VALUE), "{}", reply.content);
            reply.content
        };

        // The server returns the value, which is masked before the script has it.
        let fetch = "const headers = { authorization: `Bearer ${secrets.API_KEY}` };\n";
        let code = format!("{fetch}return (await fetch('https://api.example/a', {{ headers }})).text()");
        let reply = run(&code).await;
        assert!(reply.contains("Bearer *****"), "{reply}");
        let received = scene.received();
        assert!(received.contains(&format!("Bearer {VALUE}")), "{received}");

        let reply = run("return [Object.keys(secrets), secrets.API_KEY.slice(0, 10)]").await;
        assert!(reply.contains(r#"["API_KEY","GIT"]"#) && reply.contains(r#""koze_cred_""#), "{reply}");

        let code = format!("{fetch}return (await fetch('https://other.example/', {{ headers }})).text()");
        let reply = run(&code).await;
        assert!(reply.contains("was sent to other.example in the header `authorization`"), "{reply}");
        assert_eq!(scene.received(), "");

        let journal = scene.journal();
        for line in [
            "true allowed_hosts: api.example; credentials: API_KEY\n",
            "false credentials: API_KEY is not for this request\n",
        ] {
            assert!(journal.contains(line), "{journal}");
        }
    })
}
