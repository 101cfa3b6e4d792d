// The film strip: a tile for each photo, and the sample photos.
const HEIGHT = 128; // pixels of a tile's picture, twice what the page shows
const $ = id => document.getElementById(id);

// Add the tile of a photo. on: show(photo), remove(photo).
export function addTile(photo, on) {
  const tile = $("tile").content.firstElementChild.cloneNode(true), [show, remove] = tile.querySelectorAll("button");
  show.querySelector("span").textContent = photo.name;
  show.addEventListener("click", () => on.show(photo));
  remove.setAttribute("aria-label", `Remove ${photo.name}`);
  remove.addEventListener("click", () => on.remove(photo));
  photo.tile = tile;
  $("photos").append(tile);
  drawTile(photo.file, show.querySelector("canvas"));
}

async function drawTile(file, canvas) {
  try {
    const image = await createImageBitmap(file, { resizeHeight: HEIGHT, resizeQuality: "medium" });
    [canvas.width, canvas.height] = [image.width, image.height];
    canvas.getContext("2d").drawImage(image, 0, 0);
  } catch {
    canvas.hidden = true; // the browser cannot open this format: the tile has the name
  }
}

// Show the state of a tile: which photo is shown, and whether one has failed or is corrected.
export function markTiles(photos, current) {
  for (const photo of photos) {
    photo.tile.classList.toggle("failed", Boolean(photo.error));
    photo.tile.classList.toggle("corrected", Boolean(photo.boxes));
    photo.tile.querySelector(".show").setAttribute("aria-current", photo === current);
    photo.tile.title = photo.error ?? photo.name;
  }
}

// Offer sample photos, each { name, url }.
export function offerSamples(samples, use) {
  for (const { name, url } of samples) {
    const button = document.createElement("button"), image = document.createElement("img");
    button.type = "button";
    image.src = url;
    image.alt = `Use the sample photo ${name.replace(/[._].*/, "")}`;
    button.append(image);
    button.addEventListener("click", async () => {
      const blob = await (await fetch(url)).blob();
      use(new File([blob], name, { type: blob.type }));
    });
    $("free").append(button);
  }
  $("free").hidden = samples.length === 0;
}
