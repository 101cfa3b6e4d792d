// The list of objects beside the picture: what the boxes are for those who do not use a pointer.
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const FAR = 100; // steps across a photo while a key is held
const $ = id => document.getElementById(id);

export const percent = share => `${(100 * share).toFixed(0)} %`;

// List objects, each { box, area }. pixels: of the photo. on: select(index or null), remove(index), and
// move(index, across, down, whether the lower right corner alone moves).
export function listObjects(objects, selected, pixels, on) {
  const had = document.activeElement?.closest?.("#objects li"), place = had && [...$("objects").children].indexOf(had);
  const far = Math.max(1, Math.round(Math.sqrt(pixels) / FAR)); // a step while a key is held
  $("objects").replaceChildren(...objects.map(({ box, area }, index) => {
    const row = $("object").content.firstElementChild.cloneNode(true), [choose, drop] = row.querySelectorAll("button");
    choose.textContent = `${box.join(", ")}: ${percent(area / pixels)}`;
    choose.setAttribute("aria-pressed", index === selected);
    choose.setAttribute("aria-label", `Object ${index + 1}, box ${box.join(", ")}; arrow keys move it, with Shift its lower right corner`);
    choose.addEventListener("click", () => on.select(index === selected ? null : index));
    choose.addEventListener("keydown", event => {
      if (!(event.key in STEPS)) return;
      event.preventDefault();
      on.move(index, ...STEPS[event.key].map(step => event.repeat ? far * step : step), event.shiftKey);
    });
    drop.setAttribute("aria-label", `Remove object ${index + 1}`);
    drop.addEventListener("click", () => on.remove(index));
    return row;
  }));
  if (had) ($("objects").children[Math.min(place, objects.length - 1)]?.querySelector(".select") ?? $("add")).focus();
}

// Focus the last object.
export const focusLast = () => $("objects").lastElementChild.querySelector(".select").focus();
