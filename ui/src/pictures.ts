/** The pictures that the page shows: raster formats, recognized by their first bytes. An SVG is a program, and is shown as text. */

const starts = (bytes: Uint8Array, at: number, text: string) =>
  [...text].every((character, index) => bytes[at + index] === character.charCodeAt(0));

/** Returns the media type of a picture, or `null` for anything else. */
export function pictureType(bytes: Uint8Array): string | null {
  if (starts(bytes, 0, "\u0089PNG\r\n\u001a\n")) return "image/png";
  if (starts(bytes, 0, "\u00ff\u00d8\u00ff")) return "image/jpeg";
  if (starts(bytes, 0, "GIF87a") || starts(bytes, 0, "GIF89a")) return "image/gif";
  if (starts(bytes, 0, "RIFF") && starts(bytes, 8, "WEBP")) return "image/webp";
  if (starts(bytes, 4, "ftypavif")) return "image/avif";
  return null;
}
