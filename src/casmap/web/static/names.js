// Names of files.

// A name without its ending.
export const stem = name => name.replace(/\.[^.]*$/, "");

// A name that is not taken yet; it is, then.
export function unique(name, taken) {
  const [, start, ending] = name.match(/^(.*?)(\.[^.]*)?$/s);
  let found = name;
  for (let number = 2; taken.has(found); number++) found = `${start}-${number}${ending ?? ""}`;
  taken.add(found);
  return found;
}
