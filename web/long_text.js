// Plays the finished parts of OmniVoice Long Text one after another, also while the rest is made.
import { api } from "../../scripts/api.js";
import { app } from "../../scripts/app.js";

const KEY = "omnivoice_long"; // as in nodes/host/long_text.py

app.registerExtension({
  name: "omnivoice.LongText",
  nodeCreated(node) {
    if (node.comfyClass !== "OmniVoiceLongText") return;
    const player = document.createElement("audio");
    player.controls = true;
    player.style.minHeight = "54px"; // else Nodes 2.0 gives it none
    let parts = [], at = 0;
    const load = (index) => {
      at = index;
      player.src = api.apiURL(`/view?filename=${encodeURIComponent(parts[at])}&subfolder=${KEY}&type=temp`);
    };
    const next = () => {
      if (at + 1 >= parts.length) return;
      load(at + 1);
      player.play();
    };
    player.addEventListener("ended", next);
    const widget = node.addDOMWidget("listen", "omnivoice_listen", player, { serialize: false, getMinHeight: () => 60 });
    widget.serialize = false; // nothing to save with the workflow
    const executed = node.onExecuted;
    node.onExecuted = function (output) {
      executed?.apply(this, arguments);
      if (!output?.[KEY]) return;
      const current = parts[at];
      parts = [...parts.slice(0, output[KEY + "_first"][0]), ...output[KEY]];
      if (parts[at] !== current) load(0); // another text
      else if (player.ended) next();
    };
  },
});
