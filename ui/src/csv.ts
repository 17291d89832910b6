/** Reads tables of RFC 4180, leniently: a quote within a field without quotes is part of it. */

/** Returns at most this many rows of a text. */
export function parseCsv(text: string, separator: string, limit: number): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  let at = 0;
  while (at < text.length && rows.length < limit) {
    let field = "";
    if (text[at] === '"') {
      at += 1;
      for (;;) {
        const end = text.indexOf('"', at);
        field += text.slice(at, end < 0 ? text.length : end);
        at = end < 0 ? text.length : end + 1;
        if (text[at] !== '"') break;
        field += '"';
        at += 1;
      }
    }
    while (at < text.length && text[at] !== separator && text[at] !== "\n") {
      field += text[at];
      at += 1;
    }
    row.push(field.replace(/\r$/, ""));
    const isEnd = at >= text.length || text[at] === "\n";
    at += 1;
    if (isEnd) {
      rows.push(row);
      row = [];
    }
  }
  return rows;
}
