// The violations of contrast, and the looks that passed. What has the same colours, size and ground as something
// that passed has the same contrast, on any page: to look at all of it again takes longer than all other rules.
async passed => {
  const grounds = new Map([[null, ""]]), unknown = new Map();
  const groundOf = element => {
    if (!grounds.has(element)) {
      const {backgroundColor: ground, backgroundImage: image, opacity, position} =
        getComputedStyle(element);
      const hides = ground.startsWith("rgb(") && image === "none" && opacity === "1";
      const under = hides ? "" : groundOf(element.parentElement);
      grounds.set(element, [ground, image, opacity, position, under].join());
    }
    return grounds.get(element);
  };
  const hasText = node => node.nodeType === Node.TEXT_NODE && node.data.trim() !== "";
  for (const element of document.body.querySelectorAll("*")) {
    const isField = element.matches("input, select, textarea");
    if (!isField && ![...element.childNodes].some(hasText)) continue;
    if (!element.checkVisibility()) continue;
    const {color, fill, fontSize, fontWeight, textShadow} = getComputedStyle(element);
    const look = [color, fill, fontSize, fontWeight, textShadow, groundOf(element)].join();
    if (!passed.includes(look)) unknown.set(element, look);
  }
  if (unknown.size === 0) return [[], []];
  const {passes, violations} = await axe.run({include: [...unknown.keys()]}, {
    elementRef: true, preload: false, runOnly: ["color-contrast"]
  });
  const good = passes.flatMap(rule => rule.nodes.map(node => unknown.get(node.element)));
  return [[...new Set(good)], violations.map(({id, nodes}) => (
    {id, nodes: nodes.map(({html}) => ({html}))}
  ))];
}
