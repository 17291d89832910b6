/** Uploads files into a directory. A file that exists is not replaced without a question. */

import { useRef, useState } from "preact/hooks";
import { filePath, Refused, read } from "./api";
import { messageOf } from "./connection";
import { Question } from "./question";
import { count, visibleLine } from "./text";

interface Props {
  session: string;
  sandbox: string;
  directory: string;
  onDone: () => void;
  onProblem: (message: string | null) => void;
}

export function Upload({ session, sandbox, directory, onDone, onProblem }: Props) {
  const [isBusy, setBusy] = useState(false);
  const [existing, setExisting] = useState<File[]>([]);
  const input = useRef<HTMLInputElement>(null);

  /** Uploads files one after the other. */
  async function upload(files: File[], isReplacing: boolean) {
    setBusy(true);
    onProblem(null);
    const found: File[] = [];
    for (const file of files) {
      try {
        const url = filePath(session, sandbox, directory === "/" ? `/${file.name}` : `${directory}/${file.name}`);
        await read(url, { method: "PUT", headers: isReplacing ? {} : { "if-none-match": "*" }, body: file });
      } catch (error) {
        if (error instanceof Refused && error.status === 412) {
          found.push(file);
          continue;
        }
        onProblem(`${visibleLine(file.name)} was not uploaded. ${messageOf(error)}`);
        break;
      }
    }
    setBusy(false);
    setExisting(found);
    onDone();
  }

  return (
    <>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        onChange={(event) => {
          const files = [...(event.currentTarget.files ?? [])];
          event.currentTarget.value = "";
          void upload(files, false);
        }}
      />
      <button type="button" class="button" disabled={isBusy} onClick={() => input.current?.click()}>
        {isBusy ? "Uploading…" : "Upload…"}
      </button>
      {existing.length > 0 && (
        <Question
          title={existing.length === 1 ? `Replace ${visibleLine(existing[0]!.name)}?` : `Replace ${count(existing.length, "file")}?`}
          yes="Replace"
          onYes={() => void upload(existing, true)}
          onNo={() => setExisting([])}
        >
          <p>{existing.length === 1 ? "A file with this name exists." : existing.map((file) => visibleLine(file.name)).join(", ")}</p>
        </Question>
      )}
    </>
  );
}
