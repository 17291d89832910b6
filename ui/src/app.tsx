/** The frame of the page: the sessions, the views of one, and the state of the connection. */

import { useEffect, useState } from "preact/hooks";
import type { Session } from "./api";
import { Calls } from "./calls";
import { connection } from "./connection";
import { EgressView } from "./egress";
import { Files } from "./files";
import { Overview, SessionList } from "./list";
import { Command, Empty } from "./parts";
import { page, tabsOf, watchPage } from "./page";
import { Palette, title } from "./palette";
import { Previews } from "./previews";
import { Processes } from "./processes";
import { href, route, type Route } from "./route";
import { Scripts } from "./scripts";
import { sessions, watchSessions } from "./sessions";
import { Snapshots } from "./snapshots";
import { useStore } from "./store";
import { TerminalView } from "./terminal";
import { visibleLine } from "./text";

export function App() {
  const state = useStore(sessions);
  const place = useStore(route);
  const connected = useStore(connection);
  const [isChoosing, setChoosing] = useState(false);
  useEffect(watchSessions, []);
  useEffect(watchPage, []);
  useEffect(() => {
    function open(event: KeyboardEvent) {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      setChoosing(true);
    }
    document.addEventListener("keydown", open);
    return () => document.removeEventListener("keydown", open);
  }, []);
  useEffect(() => {
    document.title = place.session === null ? "koze" : `${visibleLine(place.session)} · koze`;
  }, [place.session]);
  if (connected === "signed-out") return <SignedOut />;
  return (
    <div class={place.session === null ? "app at-start" : "app"}>
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <header class="top">
        <a class="logo" href={href(null)} aria-label="koze, all sessions">
          koze
        </a>
        <button type="button" class="button goto" onClick={() => setChoosing(true)}>
          Go to… <kbd>Ctrl K</kbd>
        </button>
        <ConnectionState isLost={connected === "lost"} />
      </header>
      {place.session !== null && (
        <nav class="side" aria-label="Sessions">
          <h2 class="side-title">Sessions</h2>
          <SessionList state={state} current={place.session} />
        </nav>
      )}
      <main id="main" class="main" tabIndex={-1}>
        {place.session === null ? (
          <Overview state={state} />
        ) : (
          <SessionView
            key={place.session}
            place={place}
            session={state.sessions.find((session) => session.name === place.session) ?? emptySession(place.session)}
          />
        )}
      </main>
      {isChoosing && <Palette sessions={state.sessions} current={place.session} onClose={() => setChoosing(false)} />}
    </div>
  );
}

/** The fragment of the URL is the place in the page, so this link must not change it. */
function skip(event: MouseEvent) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function emptySession(name: string): Session {
  return { name, sandboxes: [], calls: 0 };
}

function ConnectionState({ isLost }: { isLost: boolean }) {
  return (
    <span class={isLost ? "connection lost" : "connection"} role="status">
      {isLost ? "▲ Connection lost, trying again…" : "● Live"}
    </span>
  );
}

function SessionView({ place, session }: { place: Route; session: Session }) {
  const tabs = tabsOf(useStore(page));
  return (
    <>
      <header class="session-head">
        <h1>
          <bdi>{visibleLine(session.name)}</bdi>
        </h1>
        <nav class="tabs" aria-label="Views of the session">
          {tabs.map((tab) => (
            <a key={tab} href={href(session.name, tab)} aria-current={tab === place.tab ? "page" : undefined}>
              {title(tab)}
            </a>
          ))}
        </nav>
      </header>
      <View place={place} session={session} />
    </>
  );
}

function View({ place, session }: { place: Route; session: Session }) {
  const { read_only: isReadOnly } = useStore(page);
  // Browsers resolve these in the path of a URL.
  if (session.name === "." || session.name === "..") {
    return (
      <Empty title="A browser cannot address this session">
        <Command>{`koze log --session=${session.name}`}</Command>
      </Empty>
    );
  }
  switch (place.tab) {
    case "calls":
      return <Calls session={session.name} id={place.rest[0] ?? null} />;
    case "files":
      return <Files session={session} rest={place.rest} />;
    case "processes":
      return <Processes session={session} rest={place.rest} />;
    case "terminal":
      if (isReadOnly) return <Empty title="No terminals"><p>This page was started with <code>--read-only</code>, and changes nothing.</p></Empty>;
      return <TerminalView session={session} rest={place.rest} />;
    case "previews":
      return <Previews session={session} rest={place.rest} />;
    case "scripts":
      return <Scripts session={session.name} rest={place.rest} />;
    case "snapshots":
      return <Snapshots session={session.name} />;
    case "egress":
      return <EgressView session={session.name} />;
  }
}

function SignedOut() {
  return (
    <main class="main alone">
      <Empty title="Not signed in" isPage>
        <p>
          Open the URL that <code>koze ui</code> printed, with everything after the <code>#</code>. If koze was started again, it printed
          another one.
        </p>
      </Empty>
    </main>
  );
}
