// The large picture: the photo and a view of it, the divider between them, and boxes that can be dragged.

const CLICK = 4; // pixels on the screen: a pointer that moves less than this has clicked
const HANDLE = 7, TEXT = 13; // pixels on the screen: radius of a handle, height of a label
const SVG = "http://www.w3.org/2000/svg";
const $ = id => document.getElementById(id);

export class Stage {
  // on: select(index or null), change(index, box), add(box), pick(x, y).
  constructor(on) {
    Object.assign(this, { on, objects: [], selected: null, adding: false, width: 1, height: 1 });
    this.svg = $("marks");
    this.svg.addEventListener("pointerdown", event => this.press(event));
    this.svg.addEventListener("pointermove", event => this.drag(event));
    this.svg.addEventListener("pointerup", event => this.release(event));
    this.svg.addEventListener("pointercancel", () => { this.held = null; this.render(); });
    new ResizeObserver(() => this.render()).observe($("picture"));
    const divider = $("divider");
    divider.addEventListener("pointerdown", event => divider.setPointerCapture(event.pointerId));
    divider.addEventListener("pointermove", event => {
      if (!divider.hasPointerCapture(event.pointerId)) return;
      const { left, width } = $("picture").getBoundingClientRect();
      this.divide(100 * (event.clientX - left) / width);
    });
    divider.addEventListener("keydown", event => {
      const step = { ArrowLeft: -5, ArrowDown: -5, ArrowRight: 5, ArrowUp: 5, Home: -100, End: 100 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      this.divide(Number(divider.getAttribute("aria-valuenow")) + step);
    });
    this.divide(40);
  }

  // Move the divider to a share of the width, in percent.
  divide(share) {
    const cut = Math.min(100, Math.max(0, Math.round(share)));
    $("divider").setAttribute("aria-valuenow", cut);
    $("divider").setAttribute("aria-valuetext", `${cut} % of the width`);
    $("picture").style.setProperty("--cut", `${cut}%`);
    $("left-name").hidden = cut < 12;
    $("right-name").hidden = cut > 88;
  }

  // Show two images of the same size. names: what is left and right of the divider.
  paint({ width, height }, left, right, names, clear) {
    [this.width, this.height] = [width, height];
    for (const [id, image] of [["before", left], ["after", right]]) {
      const canvas = $(id);
      [canvas.width, canvas.height] = [image.width, image.height];
      canvas.getContext("2d").putImageData(image, 0, 0);
      canvas.classList.toggle("clear", clear);
    }
    ["left-name", "right-name"].forEach((id, i) => { $(id).textContent = names[i]; });
    $("picture").style.setProperty("--ratio", width / height);
    $("picture").style.setProperty("--width", `${width}px`);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  }

  // Draw the boxes and outlines of objects, each { box, text, outlines }.
  mark(objects, selected) {
    Object.assign(this, { objects, selected });
    this.render();
  }

  render() {
    const scale = this.svg.clientWidth / this.width || 1, drawn = [];
    this.svg.classList.toggle("adding", this.adding);
    for (const { outlines } of this.objects) {
      const path = outlines.map(points => `M${points.join(" ")}Z`).join("");
      for (const kind of ["under", "over"]) if (path) drawn.push(make("path", { d: path, class: kind }));
    }
    this.objects.forEach(({ box, text }, index) => {
      const shown = this.held?.index === index && this.held.box ? this.held.box : box;
      drawn.push(...this.frame(shown, index === this.selected ? "selected" : "", scale));
      if (text) drawn.push(this.text(text, shown, scale));
      for (let corner = 0; corner < 4; corner++) {
        const circle = make("circle", { cx: shown[corner % 2 ? 2 : 0], cy: shown[corner < 2 ? 1 : 3], r: HANDLE / scale });
        Object.assign(circle.dataset, { index, corner });
        drawn.push(circle);
      }
    });
    if (this.held?.drawn && this.held.box) drawn.push(...this.frame(this.held.box, "selected", scale));
    this.svg.replaceChildren(...drawn);
  }

  frame([x0, y0, x1, y1], kind, scale) {
    const inset = 1.5 / scale; // the line lies inside the box, also at the border of the photo
    const place = { x: x0 + inset, y: y0 + inset, width: Math.max(0, x1 - x0 - 2 * inset), height: Math.max(0, y1 - y0 - 2 * inset) };
    return ["under", `over ${kind}`].map(name => make("rect", { ...place, class: name }));
  }

  text(text, [x0, y0, , y1], scale) {
    const size = TEXT / scale, above = y0 > 2 * size;
    const made = make("text", { x: x0 + 4 / scale, y: above ? y0 - 0.5 * size : Math.min(y0 + 1.6 * size, y1), "font-size": size });
    made.textContent = text;
    return made;
  }

  point(event) {
    const { left, top, width, height } = this.svg.getBoundingClientRect();
    const inside = (value, most) => Math.min(most, Math.max(0, value));
    return [inside((event.clientX - left) / width * this.width, this.width), inside((event.clientY - top) / height * this.height, this.height)];
  }

  // The smallest box around a point; -1 if there is none.
  at([x, y]) {
    const inside = this.objects.map(({ box }, i) => [box, i]).filter(([[x0, y0, x1, y1]]) => x >= x0 && x < x1 && y >= y0 && y < y1);
    inside.sort(([a], [b]) => (a[2] - a[0]) * (a[3] - a[1]) - (b[2] - b[0]) * (b[3] - b[1]));
    return inside.length ? inside[0][1] : -1;
  }

  press(event) {
    if (event.button || this.held) return;
    const start = this.point(event), { index, corner } = event.target.dataset;
    const held = { start, from: [event.clientX, event.clientY], moved: false };
    if (corner !== undefined) Object.assign(held, { index: Number(index), corner: Number(corner) });
    else if (this.adding || this.at(start) < 0) Object.assign(held, { index: -1, drawn: true });
    else held.index = this.at(start);
    this.held = held;
    this.svg.setPointerCapture(event.pointerId);
  }

  drag(event) {
    const { held } = this;
    if (!held) return;
    held.moved ||= Math.hypot(event.clientX - held.from[0], event.clientY - held.from[1]) >= CLICK;
    const [x, y] = this.point(event), old = this.objects[held.index]?.box;
    if (!held.moved) return;
    if (held.drawn) held.box = this.ordered([...held.start, x, y]);
    else if (held.corner !== undefined) {
      const box = [...old];
      box[held.corner % 2 ? 2 : 0] = x;
      box[held.corner < 2 ? 1 : 3] = y;
      held.box = this.ordered(box);
    } else if (held.index === this.selected) held.box = this.moved(old, x - held.start[0], y - held.start[1]);
    this.render();
  }

  release() {
    const { held } = this;
    this.held = null;
    if (!held) return;
    if (held.moved && held.box) {
      if (held.drawn) this.on.add(held.box);
      else this.on.change(held.index, held.box);
    } else if (held.moved) this.render();
    else if (held.drawn) this.on.pick(...held.start.map(Math.floor));
    else this.on.select(held.index === this.selected && held.corner === undefined ? null : held.index);
  }

  // A box of whole pixels, at least one along each side, inside the photo.
  ordered([a, b, c, d]) {
    const side = (one, two, most) => {
      const low = Math.min(most - 1, Math.round(Math.min(one, two)));
      return [low, Math.min(most, Math.max(low + 1, Math.round(Math.max(one, two))))];
    };
    const [x0, x1] = side(a, c, this.width), [y0, y1] = side(b, d, this.height);
    return [x0, y0, x1, y1];
  }

  // A box moved by an offset, as far as the photo goes.
  moved([x0, y0, x1, y1], across, down) {
    const dx = Math.min(this.width - x1, Math.max(-x0, Math.round(across)));
    const dy = Math.min(this.height - y1, Math.max(-y0, Math.round(down)));
    return [x0 + dx, y0 + dy, x1 + dx, y1 + dy];
  }

  // A box whose lower right corner is moved by an offset.
  resized([x0, y0, x1, y1], across, down) {
    return this.ordered([x0, y0, Math.max(x0 + 1, x1 + across), Math.max(y0 + 1, y1 + down)]);
  }

  // A box in the middle of the photo, a third of each side.
  middle() {
    const { width, height } = this;
    return this.ordered([width / 3, height / 3, 2 * width / 3, 2 * height / 3]);
  }
}

function make(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
