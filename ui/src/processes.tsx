/** The processes of a sandbox, and the output of the selected one. */

import { useEffect, useState } from "preact/hooks";
import { path, type Process, readJson, type Sandbox, type Session } from "./api";
import { NoSandboxes, Sandboxes } from "./awake";
import { messageOf, poll } from "./connection";
import { Output } from "./output";
import { Command, Empty, Problem } from "./parts";
import { href } from "./route";
import { visibleLine } from "./text";

export function Processes({ session, rest }: { session: Session; rest: string[] }) {
  const sandbox = session.sandboxes.find((one) => one.name === rest[0]) ?? session.sandboxes[0];
  if (sandbox === undefined) return <NoSandboxes purpose="Processes run in sandboxes." />;
  return (
    <div class="files-view">
      <Sandboxes session={session} selected={sandbox.name} hrefOf={(name) => href(session.name, "processes", name)} />
      {sandbox.status === "running" ? (
        <List key={sandbox.name} session={session.name} sandbox={sandbox} id={rest[1] ?? null} />
      ) : (
        <Empty title={`${visibleLine(sandbox.name)} sleeps`}>
          <p>Its programs ended when it fell asleep. The next call wakes it.</p>
        </Empty>
      )}
    </div>
  );
}

function List({ session, sandbox, id }: { session: string; sandbox: Sandbox; id: string | null }) {
  const [processes, setProcesses] = useState<Process[] | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const base = path("sessions", session, "sandboxes", sandbox.name, "processes");
  useEffect(() => {
    const load = async (signal: AbortSignal) => {
      const list = await readJson<{ processes: Process[] }>(base, signal);
      setProcesses(list.processes);
      setProblem(null);
    };
    return poll(2000, load, (error) => setProblem(messageOf(error)));
  }, [base]);
  if (problem !== null) return <Problem>{problem}</Problem>;
  if (processes === null) return <p class="note">Reading the processes…</p>;
  if (processes.length === 0) {
    return (
      <Empty title="No processes">
        <p>Programs that tools start in the background appear here with their output. Start one:</p>
        <Command>{`koze call shell '{"command": "seq 1000", "background": true}'`}</Command>
      </Empty>
    );
  }
  const selected = processes.find((process) => process.id === id);
  const to = (process: Process) => href(session, "processes", sandbox.name, process.id);
  return (
    <div class={selected ? "split has-details" : "split"}>
      <div class="directory">
        <div class="scroll" tabIndex={0} role="region" aria-label="Processes">
          <table class="table">
            <thead>
              <tr>
                <th>Program</th>
                <th>State</th>
                <th class="wide-only">ID</th>
              </tr>
            </thead>
            <tbody>
              {[...processes].reverse().map((process) => (
                <tr key={process.id} class={process === selected ? "is-selected" : undefined}>
                  <td class="name">
                    <a href={to(process)} aria-current={process === selected ? "true" : undefined}>
                      {visibleLine(process.program)}
                    </a>
                    {process.label !== undefined && <span class="quiet"> {visibleLine(process.label)}</span>}
                  </td>
                  <td>
                    <State process={process} />
                  </td>
                  <td class="wide-only mono quiet">{visibleLine(process.id)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </div>
      {selected && (
        <Output
          key={selected.id}
          base={`${base}/${encodeURIComponent(selected.id)}`}
          hasTerminal={selected.terminal}
          title={selected.program}
          closeHref={href(session, "processes", sandbox.name)}
        />
      )}
    </div>
  );
}

function State({ process }: { process: Process }) {
  if (process.exit_code === undefined) {
    return (
      <span class="status running">
        <span aria-hidden="true">●</span> running
      </span>
    );
  }
  const isOk = process.exit_code === 0;
  return (
    <span class={`outcome ${isOk ? "ok" : "failed"}`}>
      <span aria-hidden="true">{isOk ? "✓" : "✕"}</span> exit {process.exit_code}
    </span>
  );
}
