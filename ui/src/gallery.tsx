/** The pictures in the result of a call. The server decides by their content what they are, and the browser shows nothing but a picture. */

import { useEffect, useState } from "preact/hooks";
import { type Call, path, type Picture } from "./api";
import { bytes, visibleLine } from "./text";

export function Pictures({ call }: { call: Call }) {
  return (
    <>
      {(call.pictures ?? []).map((picture, index) => (
        <Shown key={index} url={path("pictures", call.session, String(call.id), String(index + 1))} number={index + 1} picture={picture} />
      ))}
    </>
  );
}

function Shown({ url, number, picture }: { url: string; number: number; picture: Picture }) {
  const [isBroken, setBroken] = useState(false);
  useEffect(() => setBroken(false), [url]);
  const about = `Picture ${number}, ${visibleLine(picture.media_type)}, ${bytes(picture.bytes)}`;
  if (!picture.kept) return <p class="note">{about}: not recorded.</p>;
  if (isBroken) return <p class="note">{about}: not in the journal any more, or damaged.</p>;
  return (
    <figure class="text-field">
      <figcaption>{about}</figcaption>
      <img class="picture" src={url} alt={`Picture ${number} of the result`} onError={() => setBroken(true)} />
    </figure>
  );
}
