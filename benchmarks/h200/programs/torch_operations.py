"""Operations of PyTorch: products on Hopper's tensor cores, convolutions, attention, sorting."""

import torch

torch.manual_seed(1)
x = torch.randn(512, 512, device="cuda", dtype=torch.bfloat16)
y = x @ x
image = torch.randn(2, 16, 64, 64, device="cuda")
weights = torch.randn(32, 16, 3, 3, device="cuda")
image = torch.relu(torch.nn.functional.conv2d(image, weights, padding=1))
query = torch.randn(1, 4, 256, 64, device="cuda", dtype=torch.float16)
attention = torch.nn.functional.scaled_dot_product_attention(query, query, query, is_causal=True)
table = torch.randn(10_000, 64, device="cuda")
rows = table[torch.randint(0, 10_000, (4096,), device="cuda")]
norm = torch.nn.functional.layer_norm(rows, (64,))
values, order = torch.sort(torch.randn(100_000, device="cuda"))
total = torch.cumsum(values, 0)
counts = torch.zeros(256, device="cuda").index_add_(0, order[:4096] % 256, torch.ones(4096, device="cuda"))
print(
    float(y.float().sum()), float(attention.float().sum()), float(norm.sum()), float(total[-1]), float(counts.sum())
)
