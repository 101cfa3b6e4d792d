// A ZIP of files as they are: photos are compressed already.

const CRCS = Int32Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? (byte >>> 1) ^ 0xedb88320 : byte >>> 1;
  return byte;
});
const [VERSION, UTF8, DAY] = [20, 1 << 11, 33]; // the first day that ZIP knows, 1980-01-01
const MOST_FILES = 65535, MOST_BYTES = 2 ** 32 - 1;

// files: the content of each, a text or a Blob, by its path.
export async function zip(files) {
  const parts = [], entries = [];
  let offset = 0;
  for (const [path, content] of Object.entries(files)) {
    const blob = new Blob([content]), name = new TextEncoder().encode(path);
    const about = [UTF8, 0, 0, DAY, ...halves(await crc(blob)), ...halves(blob.size), ...halves(blob.size), name.length, 0];
    const head = shorts(0x4b50, 0x0403, VERSION, ...about);
    entries.push(shorts(0x4b50, 0x0201, VERSION, VERSION, ...about, 0, 0, 0, 0, 0, ...halves(offset)), name);
    parts.push(head, name, blob);
    offset += head.length + name.length + blob.size;
  }
  const count = entries.length / 2, size = entries.reduce((sum, { length }) => sum + length, 0);
  if (count > MOST_FILES || offset + size > MOST_BYTES) throw new Error("These photos are too many or too large for one ZIP: run casmap annotate.");
  const end = shorts(0x4b50, 0x0605, 0, 0, count, count, ...halves(size), ...halves(offset), 0);
  return new Blob([...parts, ...entries, end], { type: "application/zip" });
}

const halves = number => [number & 0xffff, number >>> 16];

function shorts(...numbers) {
  const view = new DataView(new ArrayBuffer(2 * numbers.length));
  numbers.forEach((number, i) => view.setUint16(2 * i, number, true));
  return new Uint8Array(view.buffer);
}

async function crc(blob) {
  let sum = -1;
  for (const byte of new Uint8Array(await blob.arrayBuffer())) sum = CRCS[(sum ^ byte) & 255] ^ (sum >>> 8);
  return ~sum;
}
