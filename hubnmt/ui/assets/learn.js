// Draws the Learn tab again for another model while it is open. props.value is the model's name;
// triggers "select".

watch("value", () => document.querySelector("#pieces-text").offsetParent && trigger("select"));
