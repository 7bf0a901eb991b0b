// Sliders that choose among pictures drawn beforehand. Without scripts the first picture stays, and no slider shows.
for (const figure of document.querySelectorAll("figure.frames")) {
  const frames = JSON.parse(figure.querySelector("script").textContent);
  const image = figure.querySelector("img");
  const status = figure.querySelector("[role=status]");
  const sliders = [...figure.querySelectorAll("input")];
  const show = () => {
    let at = 0; // the frames are ordered like the digits of a number: the last slider turns fastest
    for (const slider of sliders) {
      const words = JSON.parse(slider.dataset.words);
      at = at * words.length + Number(slider.value);
      slider.setAttribute("aria-valuetext", words[slider.value]);
      slider.nextElementSibling.textContent = words[slider.value];
    }
    image.src = frames[at].src;
    image.alt = status.textContent = frames[at].alt;
  };
  for (const slider of sliders) slider.addEventListener("input", show);
  const load = () => frames.forEach((frame) => { new Image().src = frame.src; });
  figure.addEventListener("focusin", load, { once: true });
  figure.addEventListener("pointerenter", load, { once: true });
  figure.querySelector(".controls").hidden = false;
}
