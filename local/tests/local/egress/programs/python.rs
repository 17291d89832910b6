//! SDKs in Python, which `cargo xtask setup` installs.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use koze_core::egress::Placement;
use koze_core::sandbox::{Sandbox as _, Write};

use super::node::answer_chat;
use super::server::{Reply, Request};
use super::{Scene, Stage, VALUE, credential};
use crate::stage::{at, within};

/// Returns the directory with the SDKs.
fn sdks() -> PathBuf {
    let root = koze_tests::root();
    let directory = root.join("target/tools/sdks");
    let wanted = std::fs::read(root.join("xtask/sdks.txt")).unwrap();
    let installed = std::fs::read(directory.join("requirements.txt")).unwrap_or_default();
    assert!(
        installed == wanted,
        "target/tools/sdks is missing, or older than xtask/sdks.txt: run `cargo xtask setup`"
    );
    directory
}

/// Puts the SDKs into a sandbox: without the descriptions of AWS's services, except S3, which would be most of the bytes.
async fn unpack_sdks(stage: &Stage) {
    let mut tar = Command::new("sh");
    let script =
        "tar -cf - --exclude='botocore/data/*/*' --exclude=__pycache__ . && tar -cf - botocore/data/s3";
    let output = tar.args(["-c", script]).current_dir(sdks()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    stage.sandbox.write(at("/home/user/archive.tar"), output.stdout, Write::Replace).await.unwrap();
    stage.run("mkdir sdks && tar -C sdks --ignore-zeros -xf archive.tar && rm archive.tar").await;
}

/// A program for the service of `OpenAI`. It names no host, key or proxy.
const CHAT: &str = r"
from openai import OpenAI
client = OpenAI()
messages = [{'role': 'user', 'content': 'Say it.'}]
answer = client.chat.completions.create(model='tests', messages=messages)
print(answer.choices[0].message.content)
stream = client.chat.completions.create(model='tests', messages=messages, stream=True)
print(''.join(part.choices[0].delta.content or '' for part in stream))
";

pub(super) fn talks_to_a_model() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let mut scene = Scene::new();
        scene.serve("openai.example", answer_chat).await;
        let key = credential("OPENAI_API_KEY", "openai.example", Placement::Bearer);
        let stage = scene.open(&[key], &[]).await;
        unpack_sdks(&stage).await;
        stage.sandbox.write(at("/home/user/chat.py"), CHAT.into(), Write::Replace).await.unwrap();
        let stars = "*".repeat(VALUE.len());
        let run = "PYTHONPATH=sdks OPENAI_BASE_URL=https://openai.example/v1 /usr/bin/python3 chat.py";
        let expected = format!("Say it. Bearer {stars}\nStreamed: Say it. Bearer {stars}");
        assert_eq!(stage.run(run).await, expected);
        let requests = stage.received();
        assert_eq!(requests.len(), 2);
        assert!(requests.iter().all(|request| request.header("user-agent").starts_with("OpenAI/Python")));

        stage.secrets.set("OPENAI_API_KEY", "another-value-0123456789").unwrap();
        let failed = stage.fail(run).await;
        assert!(failed.contains("openai.AuthenticationError") && failed.contains("401"), "{failed}");
    })
}

/// The host of a bucket, as AWS's SDKs derive it.
const BUCKET: &str = "my-bucket.s3.eu-central-1.amazonaws.com";
const ACCESS_KEY_ID: &str = "AKIAIOSFODNN7EXAMPLE";

/// A program for AWS. It names no host, key or proxy.
const STORE: &str = r"
import boto3
s3 = boto3.client('s3')
s3.put_object(Bucket='my-bucket', Key='a b/c', Body=b'a small object')
with open('big', 'rb') as body: s3.put_object(Bucket='my-bucket', Key='big', Body=body)
print(s3.get_object(Bucket='my-bucket', Key='a b/c')['Body'].read().decode())
";

/// Computes the signature of a request with the parts of its standard input, which is one of JSON.
const SIGN: &str = r"
import json, sys
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
parts = json.load(sys.stdin)
request = AWSRequest(method=parts['method'], url=parts['url'], headers=parts['headers'])
request.context['timestamp'] = parts['headers']['x-amz-date']
auth = S3SigV4Auth(Credentials(parts['id'], parts['secret']), 's3', 'eu-central-1')
text = auth.string_to_sign(request, auth.canonical_request(request))
print(auth.signature(text, request))
";

/// Returns whether a request is signed with the real secret, as botocore would sign it.
fn is_signed(request: &Request, secret: &str) -> bool {
    let authorization = request.header("authorization");
    let part = |name: &str| {
        let (_, rest) = authorization.split_once(name)?;
        rest.split(',').next()
    };
    let (Some(signed), Some(signature)) = (part("SignedHeaders="), part("Signature=")) else { return false };
    if !authorization.starts_with(&format!("AWS4-HMAC-SHA256 Credential={ACCESS_KEY_ID}/")) {
        return false;
    }
    let headers: serde_json::Map<_, _> =
        signed.split(';').map(|name| (name.to_owned(), request.header(name).into())).collect();
    let parts = serde_json::json!({
        "method": request.method.as_str(),
        "url": format!("https://{BUCKET}{}", request.target),
        "headers": headers,
        "id": ACCESS_KEY_ID,
        "secret": secret,
    });
    let mut python = Command::new("/usr/bin/python3")
        .args(["-c", SIGN])
        .env("PYTHONPATH", sdks())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(parts.to_string().as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    output.status.success() && String::from_utf8(output.stdout).unwrap().trim() == signature
}

/// Returns the content of a body in chunks of AWS, which have a checksum behind the last one.
/// Source: <https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming-trailers.html>.
fn decode_aws_chunks(mut body: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        let end = body.windows(2).position(|window| window == b"\r\n").expect("the length of a chunk");
        let length = usize::from_str_radix(std::str::from_utf8(&body[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            return content;
        }
        content.extend_from_slice(&body[end + 2..end + 2 + length]);
        body = &body[end + 2 + length + 2..];
    }
}

pub(super) fn stores_objects() -> Result<(), libtest_mimic::Failed> {
    within(async {
        let mut scene = Scene::new();
        scene
            .serve(BUCKET, |request| {
                if !is_signed(request, VALUE) {
                    let error = "<Error><Code>SignatureDoesNotMatch</Code><Message>No</Message></Error>";
                    return Reply { status: 403, ..Reply::new("application/xml", error) };
                }
                match (request.method.as_str(), request.path()) {
                    ("PUT", _) => Reply::status(200).with("etag", "\"a\""),
                    ("GET", "/a%20b/c") => Reply::new("text/plain", "a stored object"),
                    _ => Reply::status(404),
                }
            })
            .await;
        let placement = Placement::Sigv4 { region: "eu-central-1".into(), service: "s3".into() };
        let stage =
            scene.open(&[credential("STORE", "*.s3.eu-central-1.amazonaws.com", placement)], &[]).await;
        stage.secrets.set("STORE", &format!("{ACCESS_KEY_ID}:{VALUE}")).unwrap();
        unpack_sdks(&stage).await;
        stage.sandbox.write(at("/home/user/store.py"), STORE.into(), Write::Replace).await.unwrap();
        stage.run("head -c 3000000 /dev/zero > big").await;
        let run = "PYTHONPATH=sdks /usr/bin/python3 store.py";
        assert_eq!(stage.run(run).await, "a stored object");
        let requests = stage.received();
        let targets: Vec<_> = requests.iter().map(|request| &request.target[..]).collect();
        assert_eq!(targets, ["/a%20b/c", "/big", "/a%20b/c"]);
        assert_eq!(requests[1].header("x-amz-content-sha256"), "STREAMING-UNSIGNED-PAYLOAD-TRAILER");
        assert_eq!(decode_aws_chunks(&requests[0].body), b"a small object");
        assert_eq!(decode_aws_chunks(&requests[1].body), vec![0; 3_000_000]);

        stage.secrets.set("STORE", &format!("{ACCESS_KEY_ID}:another-value-0123456789")).unwrap();
        let failed = stage.fail(run).await;
        assert!(failed.contains("SignatureDoesNotMatch"), "{failed}");
    })
}
