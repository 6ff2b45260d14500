// Gives a new OmniVoice Synthesize or Long Text a text box of eight lines, since a node's schema cannot ask for a height.
// A node of a saved workflow keeps its size, which is set after this.
import { app } from "../../scripts/app.js";

app.registerExtension({
  name: "omnivoice.TextBox",
  nodeCreated(node) {
    if (!["OmniVoiceSynthesize", "OmniVoiceLongText"].includes(node.comfyClass)) return;
    const text = node.widgets?.find((widget) => widget.name === "text");
    if (text?.options) text.options.rows = 8; // Nodes 2.0 before frontend 1.49 sizes a new node by its content
    node.setSize([Math.max(node.size[0], 420), node.size[1] + 90]); // pixels
  },
});
