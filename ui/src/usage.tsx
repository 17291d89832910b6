/** What the sandboxes that run use. Measuring keeps none awake. */

import { useEffect, useState } from "preact/hooks";
import { path, readJson, type Usage } from "./api";
import { poll } from "./connection";
import { bytes, duration } from "./text";

/** The pause between two measurements, in milliseconds. */
const PAUSE = 5000;

/** Measures the sandboxes of a session until the component is gone. Returns the usage by the name of a sandbox. */
export function useUsage(session: string, isActive: boolean): Map<string, Usage> {
  const [usage, setUsage] = useState<Map<string, Usage>>(new Map());
  useEffect(() => {
    if (!isActive) {
      setUsage(new Map());
      return;
    }
    const measure = async (signal: AbortSignal) => {
      const list = await readJson<{ usage: Usage[] }>(path("sessions", session, "usage"), signal);
      setUsage(new Map(list.usage.map((one) => [one.sandbox, one])));
    };
    // A Worker has no measurements, and the list is complete without them.
    return poll(PAUSE, measure, () => setUsage(new Map()));
  }, [session, isActive]);
  return usage;
}

/** Shows what is known of the usage of a sandbox. */
export function UsageText({ usage }: { usage: Usage }) {
  const parts = [
    usage.memory_bytes !== undefined && `${bytes(usage.memory_bytes)} memory`,
    usage.processor_ms !== undefined && `${duration(usage.processor_ms)} processor`,
    usage.disk_bytes !== undefined && `${bytes(usage.disk_bytes)} disk`,
  ].filter((part) => part !== false);
  return <span class="usage quiet">{parts.join(" · ")}</span>;
}
