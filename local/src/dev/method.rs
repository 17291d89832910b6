//! The operations of the contract, on a local sandbox.

use std::time::Duration;

use serde_bytes::ByteBuf;

use super::frame::Answer;
use super::reply::{invalid_input, parse_input, to_answer, to_empty_answer, to_failure, unopened_failure};
use super::{Object, Shared, process};
use crate::LocalSandbox;
use koze_core::contract::{
    Done, Entries, Exec, Expose, Failure, LARGEST_PIECE, Lines, Nothing, Open, Opened, Output, Path, Piece,
    Read, ReadLines, SearchFiles, State, TakenEnded, Written,
};
use koze_core::error::{Code, Error};
use koze_core::provider::{Provider, Settings};
use koze_core::sandbox::{self, Command, Edit, Place, Sandbox, Status};
use koze_core::session::SLEEP_AFTER;
use koze_protocol::operation::framed;

/// Runs an operation on the sandbox of an object.
pub(super) async fn call_operation(
    shared: &Shared,
    object: &Object,
    operation: &str,
    input: &[u8],
    bytes: &[u8],
) -> Result<Answer, Failure> {
    match operation {
        "open" => return open_sandbox(shared, object, &parse_input(input)?).await,
        "status" => return sandbox_status(shared, object, &parse_input(input)?).await,
        "destroy" => return destroy_sandbox(shared, object, &parse_input(input)?).await,
        _ => {}
    }
    let sandbox = shared.find(object).await.map_err(to_failure)?.ok_or_else(unopened_failure)?;
    match operation {
        "exec" => run_command(&sandbox, parse_input(input)?).await,
        "start" | "process" | "processes" | "read_process" | "write_process" | "close_process"
        | "signal_process" | "resize_process" | "wait_process" => {
            process::call_process(&sandbox, operation, input, bytes).await
        }
        "read" => read_piece(&sandbox, &parse_input(input)?).await,
        "write" => write_file(&sandbox, &parse_input(input)?, bytes).await,
        "edit" => edit_file(&sandbox, &parse_input(input)?, bytes).await,
        "read_lines" => read_lines(&sandbox, &parse_input(input)?).await,
        "search" => {
            let SearchFiles { root, path, search, call: _ } = parse_input(input)?;
            let found = sandbox.search(Place { root: &root, path: &path }, &search).await;
            to_answer(&found.map_err(to_failure)?)
        }
        "list" => {
            let entries = sandbox.list(parse_input::<Path>(input)?.borrowed()).await.map_err(to_failure)?;
            to_answer(&Entries { entries })
        }
        "stat" => to_answer(&sandbox.stat(parse_input::<Path>(input)?.borrowed()).await.map_err(to_failure)?),
        "take_ended" => {
            parse_input::<Nothing>(input)?;
            to_answer(&TakenEnded { ended: sandbox.take_ended_programs().await })
        }
        "change" => to_empty_answer(sandbox.change(parse_input(input)?).await),
        // The object stores the port and creates its nonce, because requests arrive there.
        "expose" => to_empty_answer(check_exposable(&parse_input(input)?)),
        other => Err(invalid_input(format!("the contract has no operation `{other}`"))),
    }
}

async fn open_sandbox(shared: &Shared, object: &Object, input: &Open) -> Result<Answer, Failure> {
    let size = input.size.clone();
    let profile = shared.profile(object, input.image.as_deref()).map_err(to_failure)?;
    let profile = profile.with_size(size.as_deref()).map_err(to_failure)?;
    let asked = input.sleep_after_ms.map(|ms| Duration::from_millis(ms.into()));
    let sleep_after = asked.or(profile.sleep_after).unwrap_or(SLEEP_AFTER);
    let opened = shared
        .provider
        .open(&object.id, &Settings { profile, sleep_after, size })
        .await
        .map_err(to_failure)?;
    to_answer(&Opened { created: opened.created, size: opened.size })
}

async fn sandbox_status(shared: &Shared, object: &Object, _: &Nothing) -> Result<Answer, Failure> {
    let found = shared.provider.find(&object.id).await.map_err(to_failure)?;
    let none = State { opened: false, status: Status::Sleeping, image: None, size: None, saved: None };
    let Some(koze_core::provider::Opened { sandbox, profile, size, .. }) = found else {
        return to_answer(&none);
    };
    let status = sandbox.status().await.map_err(to_failure)?;
    let image = shared.has_several_images(object).then_some(profile);
    to_answer(&State { opened: true, status, image, size, saved: None })
}

async fn destroy_sandbox(shared: &Shared, object: &Object, _: &Nothing) -> Result<Answer, Failure> {
    let Some(sandbox) = shared.find(object).await.map_err(to_failure)? else { return to_answer(&Done {}) };
    match sandbox.destroy().await {
        // It was already destroyed.
        Err(error) if error.code == Code::NotFound => to_answer(&Done {}),
        other => to_empty_answer(other),
    }
}

async fn run_command(sandbox: &LocalSandbox, input: Exec) -> Result<Answer, Failure> {
    let command = Command {
        argv: input.argv,
        working_dir: input.working_dir,
        env: input.env,
        timeout: Duration::from_millis(input.timeout_ms.into()),
        max_output: input.max_output as usize,
    };
    let sandbox::Output { stdout, stderr, exit_code, timed_out } =
        sandbox.exec(command).await.map_err(to_failure)?;
    let ended = sandbox.0.has_ended_programs();
    let value = Output { stdout: ByteBuf::new(), stderr: ByteBuf::new(), exit_code, timed_out, ended };
    Ok(Answer { bytes: vec![("stdout", stdout), ("stderr", stderr)], ..to_answer(&value)? })
}

async fn read_piece(sandbox: &LocalSandbox, input: &Read) -> Result<Answer, Failure> {
    if input.limit > LARGEST_PIECE.into() {
        return Err(invalid_input(format!(
            "one read returns at most {LARGEST_PIECE} bytes: read in several parts"
        )));
    }
    let from = Place { root: &input.root, path: &input.path };
    let piece = sandbox.read(from, input.offset, input.limit).await.map_err(to_failure)?;
    let value = Piece { bytes: ByteBuf::new(), size: piece.size };
    Ok(Answer { bytes: vec![("bytes", piece.bytes)], ..to_answer(&value)? })
}

async fn write_file(sandbox: &LocalSandbox, input: &framed::Write, bytes: &[u8]) -> Result<Answer, Failure> {
    if bytes.len() > LARGEST_PIECE as usize {
        return Err(invalid_input(format!("one write takes at most {LARGEST_PIECE} bytes: append the rest")));
    }
    let how = match input.offset {
        Some(offset) if input.append => sandbox::Write::At(offset),
        None if input.append => sandbox::Write::Append,
        _ => sandbox::Write::Replace,
    };
    let to = Place { root: &input.root, path: &input.path };
    let size = sandbox.write(to, bytes.to_vec(), how).await.map_err(to_failure)?;
    to_answer(&Written { size })
}

async fn edit_file(sandbox: &LocalSandbox, input: &framed::Edit, bytes: &[u8]) -> Result<Answer, Failure> {
    let split = usize::try_from(input.old).ok().and_then(|old| bytes.split_at_checked(old));
    let (old, new) = split.ok_or_else(|| invalid_input("`old` is too long".to_owned()))?;
    let edit = Edit { old: old.to_vec(), new: new.to_vec(), all: input.all };
    let edited =
        sandbox.edit(Place { root: &input.root, path: &input.path }, &edit).await.map_err(to_failure)?;
    to_answer(&edited)
}

async fn read_lines(sandbox: &LocalSandbox, input: &ReadLines) -> Result<Answer, Failure> {
    let from = Place { root: &input.root, path: &input.path };
    let sandbox::Lines { text, chars, past_end, binary, size } =
        sandbox.read_lines(from, input.range()).await.map_err(to_failure)?;
    let value = Lines { text: ByteBuf::new(), chars, past_end, binary, size };
    Ok(Answer { bytes: vec![("text", text.into_bytes())], ..to_answer(&value)? })
}

fn check_exposable(input: &Expose) -> crate::Result<()> {
    if input.port < 1024 {
        return Err(Error::new(Code::InvalidInput, "a port must be from 1024 to 65535"));
    }
    Ok(())
}
