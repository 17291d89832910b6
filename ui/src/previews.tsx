/** Servers in sandboxes, in a frame of another origin. The bar above the frame is the page's, and everything in the frame is the sandbox's. */

import { useEffect, useState } from "preact/hooks";
import { type Call, path, readJson, type Session } from "./api";
import { NoSandboxes, Sandboxes } from "./awake";
import { messageOf } from "./connection";
import { page } from "./page";
import { Problem } from "./parts";
import { isPreviewUrl, previewsOf } from "./preview-url";
import { go, href } from "./route";
import { useStore } from "./store";
import { visibleLine } from "./text";
import { callTool } from "./tools";

/**
 * The frame cannot navigate the page, open windows or dialogs, or download. It has an origin of its own, which is not the page's, and keeps
 * it: without one, most applications fail.
 */
const CONFINED = "allow-scripts allow-same-origin allow-forms";

export function Previews({ session, rest }: { session: Session; rest: string[] }) {
  const sandbox = session.sandboxes.find((one) => one.name === rest[0]) ?? session.sandboxes[0];
  if (sandbox === undefined) return <NoSandboxes purpose="Servers run in sandboxes." />;
  const port = Number(rest[1] ?? 0);
  return (
    <div class="files-view">
      <Sandboxes session={session} selected={sandbox.name} hrefOf={(name) => href(session.name, "previews", name)} />
      <Ports key={sandbox.name} session={session.name} sandbox={sandbox.name} port={port} />
    </div>
  );
}

interface Place {
  session: string;
  sandbox: string;
  port: number;
}

function Ports({ session, sandbox, port }: Place) {
  const { read_only: isReadOnly } = useStore(page);
  const [known, setKnown] = useState<Map<number, string>>(new Map());
  const [typed, setTyped] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    readJson<{ calls: Call[] }>(`${path("sessions", session, "log")}?limit=1000`, abort.signal).then(
      ({ calls }) => setKnown((known) => new Map([...previewsOf(calls, sandbox), ...known])),
      () => undefined,
    );
    return () => abort.abort();
  }, [session, sandbox]);

  async function open(port: number) {
    setProblem(null);
    try {
      const { url } = await callTool<{ url: string }>(session, "agent", "browse", { sandbox, port });
      setKnown((known) => new Map([...known, [port, url]]));
      go(href(session, "previews", sandbox, String(port)));
    } catch (error) {
      setProblem(messageOf(error));
    }
  }

  const url = known.get(port);
  const ports = [...known.keys()].sort((one, other) => one - other);
  return (
    <>
      <form
        class="filters ports"
        onSubmit={(event) => {
          event.preventDefault();
          void open(Number(typed));
        }}
      >
        <nav class="choices" aria-label="Ports with previews">
          {ports.map((one) => (
            <a key={one} class="button" href={href(session, "previews", sandbox, String(one))} aria-current={one === port ? "true" : undefined}>
              Port {one}
            </a>
          ))}
        </nav>
        {!isReadOnly && (
          <>
            <input
              type="number"
              class="field"
              min={1024}
              max={65535}
              required
              placeholder="Port"
              aria-label="Port"
              value={typed}
              onInput={(event) => setTyped(event.currentTarget.value)}
            />
            <button type="submit" class="button">
              Show the port
            </button>
          </>
        )}
      </form>
      {problem !== null && <Problem>{problem}</Problem>}
      {url === undefined ? (
        <p class="note indented">
          {ports.length === 0
            ? `No port of ${visibleLine(sandbox)} has a preview yet. Start a server in it, and ${isReadOnly ? "call browse" : "show its port"}.`
            : "Choose a port."}
        </p>
      ) : (
        <Frame key={url} url={url} sandbox={sandbox} port={port} />
      )}
    </>
  );
}

function Frame({ url, sandbox, port }: { url: string; sandbox: string; port: number }) {
  const [version, setVersion] = useState(0);
  if (!isPreviewUrl(url, location.host)) return <Problem>This preview is not on this machine, so it is not shown here.</Problem>;
  return (
    <section class="preview" aria-label={`Preview of port ${port}`}>
      <header class="preview-bar">
        <p>
          <strong>
            Port {port} of <bdi>{visibleLine(sandbox)}</bdi>
          </strong>{" "}
          <span class="quiet">Everything below this bar is from the sandbox. Type no secrets into it.</span>
        </p>
        <button type="button" class="button" onClick={() => setVersion(version + 1)}>
          Load again
        </button>
      </header>
      <iframe
        key={version}
        src={url}
        title={`Port ${port} of ${visibleLine(sandbox)}`}
        sandbox={CONFINED}
        allow=""
        referrerpolicy="no-referrer"
      />
    </section>
  );
}
