"""PTX on the CPU: parse, compile to native code, run and record."""

from .execute import Execution, compile_kernel, execute
from .parser import parse_ptx
from .program import PtxModule

__all__ = ["Execution", "PtxModule", "compile_kernel", "execute", "parse_ptx"]
