//! The processes of a sandbox: their list, their output and signals to them. Nothing here starts a sandbox.

use std::time::Duration;

use koze_core::http::ProcessEntry;
use koze_core::sandbox::process::{BUFFER, Chunk, Process as _, ProcessInfo, Signal, Stream as Printed};
use koze_core::{Code, Error, Result, Sandbox};
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::Mutex as AsyncMutex;

use super::client::{Client, ended, odd};
use super::host::Host;
use super::message::{Act, Answer, Ask, decode_output};
use super::wire;
use crate::prefix;
use crate::provider::{MachineProvider, MachineSandbox as _};

/// How long one read waits for more output.
const WAIT: Duration = Duration::from_mins(1);

impl Client {
    /// Puts a sandbox to sleep: its programs end, and its files stay.
    ///
    /// # Errors
    /// Returns the errors of the sandbox and the supervisor.
    pub async fn sleep(&self, name: &str) -> Result<()> {
        match self.ask_supervisor(Act::Sleep { name: name.to_owned() }).await? {
            Answer::Done => Ok(()),
            _ => Err(odd()),
        }
    }

    /// Lists the processes of a sandbox, oldest first.
    ///
    /// # Errors
    /// Returns the errors of the sandbox and the supervisor.
    pub async fn processes(&self, name: &str) -> Result<Vec<ProcessEntry>> {
        match self.ask_supervisor(Act::Processes { name: name.to_owned() }).await? {
            Answer::Processes(lines) => Ok(lines),
            _ => Err(odd()),
        }
    }

    /// Sends a signal to a process, whose ID may be shortened.
    ///
    /// # Errors
    /// Returns the errors of the sandbox and the supervisor.
    pub async fn signal(&self, name: &str, id: &str, signal: Signal) -> Result<()> {
        let act = Act::Signal { name: name.to_owned(), id: id.to_owned(), number: signal.number() };
        match self.ask_supervisor(act).await? {
            Answer::Done => Ok(()),
            _ => Err(odd()),
        }
    }

    /// Passes the output of a process to `print` until there is no more, or, with `follow`, until it ends. Stops if `print`
    /// returns false.
    ///
    /// # Errors
    /// Returns the errors of the sandbox and the supervisor.
    pub async fn logs(
        &self,
        name: &str,
        id: Option<&str>,
        follow: bool,
        mut print: impl FnMut(Chunk) -> bool,
    ) -> Result<()> {
        let act = Act::Logs { name: name.to_owned(), id: id.map(str::to_owned), follow };
        let mut stream = self.begin(Ask::Do(act)).await?;
        loop {
            match wire::receive::<Answer>(&mut stream).await {
                Ok(Some(Answer::Printed { stderr, data })) => {
                    let chunk = decode_output(stderr, &data).map_err(|_| odd())?;
                    if !print(chunk) {
                        return Ok(());
                    }
                }
                Ok(Some(Answer::Done)) => return Ok(()),
                Ok(Some(Answer::Failed(error))) => return Err(error),
                Ok(Some(_)) => return Err(odd()),
                Ok(None) | Err(_) => return Err(ended()),
            }
        }
    }
}

/// Lists the processes of a sandbox.
pub(super) async fn list(host: &Host<impl MachineProvider>, name: &str) -> Result<Answer> {
    let infos = host.existing(name).await?.processes().await?;
    Ok(Answer::Processes(infos.into_iter().map(ProcessEntry::from).collect()))
}

/// Sends a signal to a process.
pub(super) async fn signal(
    host: &Host<impl MachineProvider>,
    name: &str,
    id: &str,
    number: u8,
) -> Result<Answer> {
    let sandbox = host.existing(name).await?;
    let info = find_info(&sandbox, name, id).await?;
    if let Some(exit) = info.exit {
        let message = format!("the process {} has ended already, with the exit code {}", info.id, exit.code);
        return Err(Error::new(Code::NotFound, message));
    }
    let signal = Signal::from_number(number)
        .ok_or_else(|| Error::new(Code::InvalidInput, format!("the signal {number} cannot be sent")))?;
    existing_process(&sandbox, &info).await?.signal(signal).await?;
    Ok(Answer::Done)
}

/// Reports the output of a process.
pub(super) async fn report_output(
    host: &Host<impl MachineProvider>,
    name: &str,
    id: Option<&str>,
    follow: bool,
    write: &AsyncMutex<OwnedWriteHalf>,
) -> Result<Answer> {
    let sandbox = host.existing(name).await?;
    let info = match id {
        Some(id) => find_info(&sandbox, name, id).await?,
        None => sandbox.recorded().await?.pop().ok_or_else(|| no_process(name))?,
    };
    let process = existing_process(&sandbox, &info).await?;
    let mut cursor = 0;
    let mut wait = Duration::ZERO;
    loop {
        // The first read has room for the whole buffer, and acknowledges nothing: other readers lose nothing.
        let output = process.read(cursor, *BUFFER.end(), wait).await?;
        if output.dropped > 0 {
            let note = format!("koze: {} earlier bytes were dropped\n", output.dropped);
            let chunk = Chunk { stream: Printed::Stderr, bytes: note.into_bytes() };
            report_chunk(chunk, write).await?;
        }
        for chunk in output.chunks {
            report_chunk(chunk, write).await?;
        }
        if output.exit.is_some() || !follow {
            return Ok(Answer::Done);
        }
        cursor = output.next;
        wait = WAIT;
    }
}

async fn report_chunk(chunk: Chunk, write: &AsyncMutex<OwnedWriteHalf>) -> Result<()> {
    let answer = Answer::printed(chunk);
    wire::send(&mut *write.lock().await, &answer).await.map_err(|_| ended())
}

/// Returns the process whose ID begins with a text.
async fn find_info<S: Sandbox>(sandbox: &S, name: &str, id: &str) -> Result<ProcessInfo> {
    let found = prefix::find_process(sandbox.processes().await?, |info| info.id.as_str(), id)?;
    found.ok_or_else(|| {
        let message =
            format!("the sandbox `{name}` has no process `{id}`: `koze ps {name}` lists those that it has");
        Error::new(Code::NotFound, message)
    })
}

async fn existing_process<S: Sandbox>(sandbox: &S, info: &ProcessInfo) -> Result<S::Process> {
    let gone = || Error::new(Code::NotFound, format!("the process {} has just ended", info.id));
    sandbox.process(&info.id).await?.ok_or_else(gone)
}

fn no_process(name: &str) -> Error {
    let message = format!(
        "the sandbox `{name}` has no process with output: `koze exec --detach` starts one, and a sandbox that sleeps keeps none"
    );
    Error::new(Code::NotFound, message)
}
