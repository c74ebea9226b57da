// What is measured of the page that is shown, at each width of its window. The page moves into a frame, and takes that
// for its window: a real one would be drawn at every width, which takes longer than all else.
async (widths, measured) => {
  const root = document.documentElement, around = document.createElement("html");
  const frame = document.createElement("iframe");
  const isReady = new Promise(done => { frame.onload = done; });
  Object.assign(frame, {srcdoc: "<!doctype html>", frameBorder: "0", height: "844"});
  around.append(document.createElement("body"));
  document.replaceChild(around, root);
  document.body.append(frame);
  await isReady;
  const inFrame = frame.contentDocument;
  const styles = [...root.querySelectorAll("link[rel=stylesheet]")].map(
    link => new Promise((loaded, failed) => { link.onload = loaded; link.onerror = failed; })
  );
  inFrame.replaceChild(inFrame.adoptNode(root), inFrame.documentElement);
  await Promise.all(styles);
  return widths.map(width => {
    frame.width = width;
    if (inFrame.documentElement.clientWidth !== width) throw new Error(`no window of ${width} px`);
    return measured(inFrame);
  });
}
