// The violations of contrast, and the looks that passed. What has the same colours, size and ground as something
// that passed has the same contrast, on any page: to look at all of it again takes longer than all other rules.
async passed => {
  const grounds = new Map([[null, ""]]), unknown = new Map(), lookOf = new Map();
  const known = new Set(passed);
  const groundOf = element => {
    if (!grounds.has(element)) {
      const {backgroundColor: ground, backgroundImage: image, opacity, position} =
        getComputedStyle(element);
      const isPlain = image === "none" && opacity === "1";
      const hides = ground.startsWith("rgb(") && isPlain;
      const under = hides ? "" : groundOf(element.parentElement);
      const isClear = ground === "rgba(0, 0, 0, 0)" && isPlain && position === "static";
      grounds.set(element, isClear ? under : [ground, image, opacity, position, under].join());
    }
    return grounds.get(element);
  };
  const hasText = node => node.nodeType === Node.TEXT_NODE && node.data.trim() !== "";
  for (const element of document.body.querySelectorAll("*")) {
    const isField = element.matches("input, select, textarea");
    if (!isField && ![...element.childNodes].some(hasText)) continue;
    // What lies under a text in a drawing axe cannot tell: it finds neither that it passes nor that it does not.
    if (!element.checkVisibility() || element.ownerSVGElement) continue;
    const {color, fill, fontSize, fontWeight, textShadow} = getComputedStyle(element);
    const look = [color, fill, fontSize, fontWeight, textShadow, groundOf(element)].join();
    if (known.has(look)) continue;
    if (!unknown.has(look)) unknown.set(look, []);
    unknown.get(look).push(element);
    lookOf.set(element, look);
  }
  const good = [], bad = [];
  // One element of each look, and the others of those looks about which it does not tell.
  for (const [from, to] of [[0, 1], [1, Infinity]]) {
    const include = [...unknown.values()].flatMap(alike => alike.slice(from, to));
    if (include.length === 0) continue;
    const {passes, violations} = await axe.run({include}, {
      elementRef: true, preload: false, runOnly: ["color-contrast"]
    });
    for (const {element} of passes.flatMap(({nodes}) => nodes)) {
      good.push(lookOf.get(element));
      unknown.delete(lookOf.get(element));
    }
    bad.push(...violations.map(({id, nodes}) => ({id, nodes: nodes.map(({html}) => ({html}))})));
  }
  return [[...new Set(good)], bad];
}
