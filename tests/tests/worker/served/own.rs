//! Custom code in the Worker that the tests build. `POST /own/<what>` calls it, with arguments in the query and the
//! body; the answer is `{"ok": …}` or `{"error": "code: message"}`.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use futures_util::{TryStreamExt as _, stream};
use koze::provider::{Profile, Size};
use koze::tool::Family;
use koze::workspace::{SnapshotConfig, SnapshotId, WorkspaceConfig};
use koze::{Provider, Sandbox, SandboxClass, SessionId, Stub};
use worker::{Delay, Request, Response, Result};

use crate::generated::Env;

/// Answers requests to the custom code; `None` for all others.
pub async fn answer(request: &mut Request, env: &Env) -> Option<Result<Response>> {
    let what = request.path().strip_prefix("/own/")?.to_owned();
    Some(told(&what, request, env).await)
}

async fn told(what: &str, request: &mut Request, env: &Env) -> Result<Response> {
    let query: BTreeMap<String, String> = request.url()?.query_pairs().into_owned().collect();
    let value = |name: &str| query.get(name).map_or("", String::as_str);
    let body = request.text().await?;
    let told = match what {
        "store" => store(env, value("session")).await,
        "operations" => operations(env, value("session")).await,
        "snapshot" => snapshots(env, value("session"), value("action"), value("with"), &body).await,
        "hibernated" => hibernated(env, value("session")).await,
        _ if value("class") == "python" => {
            by_key(&env.python_sandbox().get(value("key"))?, what, value("path"), body).await
        }
        _ => by_key(&env.shell_sandbox().get(value("key"))?, what, value("path"), body).await,
    };
    Response::from_json(&match told {
        Ok(text) => BTreeMap::from([("ok", text)]),
        Err(error) => BTreeMap::from([("error", error.to_string())]),
    })
}

/// Checks the stores of a session and of another one.
async fn store(env: &Env, session: &str) -> koze::Result<String> {
    let store = |name: String| {
        let provider = env.session(SessionId::new("default", session)?).provider().clone();
        provider.with_bucket("BLOBS").store(&SessionId::new("default", &name)?)
    };
    let (store, other) = (store(session.to_owned())?, store(format!("{session}-2"))?);
    crate::store::check(&store, &other).await.map(|cases| format!("{cases} cases"))
}

/// Checks the operations of a sandbox of a session.
async fn operations(env: &Env, session: &str) -> koze::Result<String> {
    let session = env.session(SessionId::new("default", session)?);
    let sandbox = session.sandbox("default").await?;
    crate::operations::check(&sandbox).await.map(|cases| format!("{cases} cases"))
}

/// Uses the snapshots of a workspace whose archives are in R2. Files are sent and returned as base64.
async fn snapshots(env: &Env, name: &str, action: &str, with: &str, body: &str) -> koze::Result<String> {
    let id = SessionId::new("default", name)?;
    let snapshot = SnapshotConfig { bucket: Some("BLOBS".into()), ..SnapshotConfig::default() };
    let workspace = WorkspaceConfig { snapshot: Some(snapshot), ..WorkspaceConfig::new("box") };
    let profile = Profile {
        tools: vec![Family::Workspace],
        workspace: Some(workspace),
        ..Profile::new("shell", "an image", Size { memory_mib: 256, disk_mb: 2000 })
    };
    let provider = env.session(id.clone()).provider().clone();
    let session = koze::Session::new(provider, id, koze::Profiles::new(vec![profile], "shell")?);
    let workspaces = session.workspaces();
    let workspace = match with {
        "" => workspaces.get("box").await?,
        restored if restored.starts_with("box-") => workspaces.restored("box", restored).await?,
        _ => workspaces.get("box").await?,
    };
    let (fs, snapshots) = (workspace.fs()?, workspace.snapshot()?);
    let id = || SnapshotId::new(with);
    match action {
        "write" => fs.write(body, b"content".to_vec()).await.map(|size| size.to_string()),
        "read" => {
            let bytes = fs.read(body).await?;
            Ok(format!("{} {}", bytes.len(), bytes.iter().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(*byte)))))
        }
        "create" => Ok(snapshots.create().await?.id.to_string()),
        "list" => {
            let ids = snapshots.list().await?.into_iter().map(|snapshot| snapshot.id.to_string());
            Ok(ids.collect::<Vec<_>>().join(" "))
        }
        "restore" => Ok(snapshots.restore(&id()?, None).await?.workspace.to_string()),
        "remove" => Ok(snapshots.remove(&id()?).await?.to_string()),
        "export" => {
            let pieces: Vec<Vec<u8>> = snapshots.export(&id()?).await?.try_collect().await?;
            Ok(BASE64.encode(pieces.concat()))
        }
        "import" => {
            let file = BASE64.decode(body).map_err(|_| koze::Error::new(koze::Code::InvalidInput, "no base64"))?;
            let pieces: Vec<_> = file.chunks(1 << 20).map(|piece| Ok(piece.to_vec())).collect();
            Ok(snapshots.import(Box::pin(stream::iter(pieces))).await?.id.to_string())
        }
        other => Ok(format!("there is no `{other}`")),
    }
}

/// Lists the sleeping sandboxes of a session, each with its image and whether it was last used today.
async fn hibernated(env: &Env, session: &str) -> koze::Result<String> {
    let session = env.session(SessionId::new("default", session)?);
    let now = worker::Date::now().as_millis();
    let all = session.list_hibernated().await?.into_iter().map(|one| {
        let today = now.abs_diff(one.last_used) < 24 * 60 * 60 * 1000;
        format!("{} {} {today}", one.name, one.profile)
    });
    Ok(all.collect::<Vec<_>>().join(", "))
}

/// Performs an operation on the sandbox of a key.
async fn by_key<S: SandboxClass>(
    sandbox: &Stub<S>,
    what: &str,
    path: &str,
    body: String,
) -> koze::Result<String> {
    match what {
        "exec" => {
            let output = sandbox.exec(&body).await?;
            Ok(format!("{} {}", output.exit_code, String::from_utf8_lossy(&output.stdout)))
        }
        // Drops a command after a moment, and continues until the sandbox was notified.
        "drop" => {
            let mut command = Box::pin(sandbox.exec(&body));
            let mut moment = pin!(Delay::from(Duration::from_secs(1)));
            std::future::poll_fn(|context| match command.as_mut().poll(context) {
                std::task::Poll::Ready(_) => std::task::Poll::Ready(()),
                std::task::Poll::Pending => moment.as_mut().poll(context),
            })
            .await;
            drop(command);
            for _ in 0..50 {
                Delay::from(Duration::from_millis(100)).await;
                let ends = String::from_utf8_lossy(&sandbox.exec("ends").await?.stdout).into_owned();
                if ends.contains("canceled") {
                    return Ok(ends);
                }
            }
            Ok("it was never canceled".to_owned())
        }
        "healthy" => Ok(sandbox.is_healthy().await.to_string()),
        "read" => Ok(String::from_utf8_lossy(&sandbox.read_file(path).await?).into_owned()),
        "write" => sandbox.write_file(path, body).await.map(|()| String::new()),
        // The history belongs to this handle: it contains only the commands of this request.
        "state" => {
            sandbox.exec(&body).await?;
            let state = sandbox.clone().state().await?;
            let ran = state.history.iter().map(|ran| format!("{} {}", ran.command, ran.exit_code));
            Ok(format!("{:?}: {}", state.status, ran.collect::<Vec<_>>().join(", ")))
        }
        "status" => sandbox.state().await.map(|state| format!("{:?}", state.status)),
        "expose" => sandbox.sandbox().expose(8080).await,
        "destroy" => sandbox.destroy().await.map(|()| String::new()),
        other => Ok(format!("there is no `{other}`")),
    }
}
