"""Front ends: everything that turns a recorded or emulated kernel into a trace."""
