/** The tree of snapshots: below each one, the sandboxes that were created from it, and the snapshots that were taken of those. */

export interface Snapshot {
  id: string;
  workspace: string;
  created: number;
  expired: boolean;
  /** The snapshot that its sandbox was created from. It may have been removed. */
  parent?: string;
  contents: { entries: number; bytes: number };
}

export interface DerivedSandbox {
  name: string;
  workspace: string;
  snapshot: string;
}

export interface Snapshots {
  snapshots: Snapshot[];
  sandboxes: DerivedSandbox[];
}

export type TreeRow =
  | { kind: "snapshot"; key: string; depth: number; snapshot: Snapshot; isOrphan: boolean }
  | { kind: "sandbox"; key: string; depth: number; sandbox: DerivedSandbox };

/** Returns the rows of the tree from top to bottom. Snapshots whose parent was removed are at its top, and so are such sandboxes. */
export function treeOf({ snapshots, sandboxes }: Snapshots): TreeRow[] {
  const ids = new Set(snapshots.map(({ id }) => id));
  const children = group(snapshots, ({ parent }) => (parent !== undefined && ids.has(parent) ? parent : null));
  const derived = group(sandboxes, ({ snapshot }) => (ids.has(snapshot) ? snapshot : null));
  const rows: TreeRow[] = [];
  // A stack in place of recursion: a chain can be as long as the list.
  const waiting = [...(children.get(null) ?? [])].reverse().map((snapshot) => ({ snapshot, depth: 0 }));
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { snapshot, depth } = next;
    const isOrphan = snapshot.parent !== undefined && !ids.has(snapshot.parent);
    rows.push({ kind: "snapshot", key: snapshot.id, depth, snapshot, isOrphan });
    rows.push(...(derived.get(snapshot.id) ?? []).map((sandbox) => sandboxRow(sandbox, depth + 1)));
    waiting.push(...[...(children.get(snapshot.id) ?? [])].reverse().map((snapshot) => ({ snapshot, depth: depth + 1 })));
  }
  return [...rows, ...(derived.get(null) ?? []).map((sandbox) => sandboxRow(sandbox, 0))];
}

function group<T>(items: T[], keyOf: (item: T) => string | null): Map<string | null, T[]> {
  const groups = new Map<string | null, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const items = groups.get(key);
    if (items === undefined) groups.set(key, [item]);
    else items.push(item);
  }
  return groups;
}

function sandboxRow(sandbox: DerivedSandbox, depth: number): TreeRow {
  return { kind: "sandbox", key: `sandbox ${sandbox.name}`, depth, sandbox };
}
