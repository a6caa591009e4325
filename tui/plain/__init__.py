"""Plain mode: the wizard as questions and labelled lines, for screen readers, dumb terminals and serial consoles."""
