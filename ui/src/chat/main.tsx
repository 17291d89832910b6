/** The page of a session's timeline inside a chat. */

import { render } from "preact";
import { type Context, Host } from "./host";
import { TimelineView } from "./list";
import { watchSeen } from "./seen";
import { Timeline } from "./timeline";

/** The height of the page in pixels beyond which its list scrolls, if the host does not say. */
const HEIGHT = 480;

let context: Context = {};

/** Applies the theme and the size that the host gives the page. A change names only what is different. */
function apply(change: Context): void {
  context = { ...context, ...change };
  const { theme, displayMode, containerDimensions: size } = context;
  const root = document.documentElement;
  if (theme === "light" || theme === "dark") root.style.colorScheme = theme;
  root.classList.toggle("is-fixed", displayMode === "fullscreen" || size?.height !== undefined);
  root.style.setProperty("--most", `${Math.min(size?.maxHeight ?? HEIGHT, HEIGHT)}px`);
}

const app = document.getElementById("app")!;
const timeline = new Timeline();
const host = new Host({
  changed: apply,
  returned: (result) => timeline.show(result),
  canceled: () => timeline.fail("The call of the tool was canceled."),
  closed: () => timeline.end(),
});
watchSeen();
render(<TimelineView timeline={timeline} />, app);
host.connect().then(
  () => {
    new ResizeObserver(() => {
      const { width, height } = app.getBoundingClientRect();
      host.notify("ui/notifications/size-changed", { width: Math.ceil(width), height: Math.ceil(height) });
    }).observe(app);
    return timeline.follow(host);
  },
  (error) => timeline.fail(error),
);
