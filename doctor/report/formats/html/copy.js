for (const block of document.querySelectorAll("pre.copy")) {
  const text = block.textContent;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.onclick = async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(block.firstChild.nodeType === 1 ? block.firstChild : block);
      button.textContent = "Selected: press Ctrl+C";
    }
  };
  block.before(button);
}
