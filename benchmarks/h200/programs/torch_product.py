"""One half-precision matrix product, for which cuBLAS uses warpgroup products and bulk copies."""

import torch

left, right = (torch.randn(4096, 4096, device="cuda", dtype=torch.float16) for _ in range(2))
torch.cuda.synchronize()
left @ right
torch.cuda.synchronize()
