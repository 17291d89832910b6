//! Requests that programs sign for AWS, and that the proxy signs again.

use koze_core::egress::{Credential, Placement};
use koze_local::Secrets;

use super::scene::{Scene, authorization};
use crate::stage::{out, within};

/// curl is a signer of its own. Without the hash of the body in a header, the signature covers the body, which the proxy then reads.
pub(super) fn credentials_sign_requests_to_aws() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let scene = Scene::new();
        let (id, secret) = ("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
        let placement = Placement::Sigv4 { region: "eu-1".into(), service: "dynamodb".into() };
        let store = Credential { name: "STORE".into(), host: "api.example".into(), placement };
        let sandbox = scene.open(&["api.example"], &[], &[store]).await;
        let send = |more: &str| {
            format!(
                "curl -sS --user \"$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY\" --aws-sigv4 aws:amz:$AWS_REGION:dynamodb {more}"
            )
        };
        let unset = out(&sandbox, &send("https://api.example/a")).await;
        assert!(unset.contains("has no value"), "{unset}");
        let set = |value: &str| Secrets::at(scene.secrets.path()).set("STORE", value).unwrap();
        set("not-an-access-key");
        let invalid = out(&sandbox, &send("https://api.example/a")).await;
        assert!(
            invalid.contains("ACCESS_KEY_ID:SECRET_ACCESS_KEY") && !invalid.contains("not-an"),
            "{invalid}"
        );
        set(&format!("{id}:{secret}"));
        for more in [
            "https://api.example/a",
            "'https://api.example/a/b%20c?a=2&z=1'",
            "-d '{\"a\":1}' https://api.example/",
            "-H 'X-Amz-Target: Table.Get' -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' -T /etc/hosts https://api.example/put",
        ] {
            let echoed = out(&sandbox, &send(more)).await;
            let head = scene.received();
            let wanted = format!("AWS4-HMAC-SHA256 Credential={id}/");
            assert!(authorization(&head).starts_with(&wanted), "{more}: {head} {echoed}");
            assert!(!echoed.contains(id) && echoed.contains("Credential=*"), "{more}: {echoed}");
        }
        for (more, part) in [
            ("https://api.example/a --aws-sigv4 aws:amz:eu-2:dynamodb", "signed for `dynamodb` in `eu-2`"),
            ("https://api.example/a --user $STORE:another-secret", "not that of the placeholder"),
            ("https://api.example/a --user another-key:$STORE", ""),
            (
                "-H 'x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD' https://api.example/a",
                "each piece",
            ),
        ] {
            let refused = out(&sandbox, &send(more)).await;
            let received = scene.received();
            assert!(refused.contains(part) && !received.contains(id), "{more}: {refused} {received}");
            assert!(!received.contains("koze_cred"), "{more}: {received}");
        }
        assert!(scene.journal().contains("credentials: STORE is for another region or service"));
    })
}
