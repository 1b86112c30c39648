"""Methods and functions under PyTorch's names: value, dtype and gradient of each call are PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import staticgraph.dynamic as dy

a = np.linspace(-1.3, 1.9, 12).reshape(3, 4) + 0.05
i = np.array([[0, 2, 1, 1], [2, 0, 0, 1]])
CALLS = ["x.sum()", "x.sum(1)", "x.sum(dim=(0,1))", "x.sum(-1,keepdim=True)", "x.mean(0)", "x.prod(1)", "x.max()", "x.max(1)[0]", "x.max(dim=0)[1]", "x.min(1).values", "x.amax(0)", "x.amin(1)", "x.argmax()", "x.argmax(1)", "x.argmin(0,keepdim=True)", "x.std()", "x.var(1)", "x.var(0,unbiased=False)", "x.std(dim=1,correction=0)", "x.norm()", "x.norm(1)", "x.norm(p=3,dim=1)", "x.norm(float('inf'))", "x.logsumexp(1)", "x.softmax(-1)", "x.log_softmax(0)", "x.cumsum(0)", "x.cumprod(1)", "x.view(4,3)", "x.view(-1)", "x.reshape(2,-1)", "x.reshape((6,2))", "x.flatten()", "x.T", "x.t()", "x.mT", "x.transpose(0,1)", "x.permute(1,0)", "x.unsqueeze(0)", "x.unsqueeze(-1)", "x[None].squeeze(0)", "x[None].squeeze()", "x[0:1].expand(3,4)", "x.repeat(2,1)", "x.tile(2)", "x.flip(0)", "x.narrow(1,1,2)", "x.select(0,1)", "x.unbind(0)[1]", "x.split(2)[1]", "x.split([1,2])[0]", "x.chunk(2,1)[1]", "x.gather(0,t.tensor(i))", "x.index_select(1,t.tensor([3,0]))", "x.masked_select(x>0)", "x.scatter_add(0,t.tensor(i),x[:2])", "x.sort(1)[0]", "x.sort(0,descending=True)[1]", "x.argsort(1)", "x.topk(2)[0]", "x.topk(2,0,False)[1]", "x.tril()", "x.triu(1)", "x.clamp(-0.5,0.5)", "x.clamp(min=0)", "x.clip(max=1.0)", "x.abs()", "x.sign()", "x.neg()", "x.exp()", "x.sigmoid()", "x.relu()", "x.tanh()", "x.floor()", "x.ceil()", "x.round()", "x.round(decimals=1)", "x.trunc()", "x.reciprocal()", "x.square()", "x.pow(2)", "x.pow(3.0)", "x.erf()", "x.isnan()", "x.isfinite()", "x.logical_not()", "x+1", "1-x", "x*2.5", "x/3", "3/x", "x%0.7", "x**2", "2.0**x", "-x", "abs(x)", "x@x.T", "x.matmul(x[0])", "x[0]@x[1]", "x[0].dot(x[1])", "x.mm(x.T)", "x[None].bmm(x.T[None])", "x>0", "x<=0.5", "x==x[0]", "x!=x[0]", "(x>0)&(x<1)", "(x>0)|(x<-1)", "~(x>0)", "(x>0)^(x<1)", "x.eq(x)", "x.lt(0)", "x.maximum(x.flip(1))", "x.minimum(-x)", "x.atan2(x+2)", "x.fmod(0.4)", "x.remainder(0.4)", "x.where(x>0,-x)", "t.where(x>0,x,t.zeros_like(x))", "x.masked_fill(x>0,9.0)", "x.lerp(x*2,0.3)", "x.addcmul(x,x,value=0.5)", "x.add(x,alpha=3)", "x.sub(1,alpha=2)", "x.div(x+3,rounding_mode='floor')", "x.type_as(x.float())", "x.float().double()", "x.long()", "x.int()", "x.bool()", "x.to(t.float32)", "x.size()", "x.size(1)", "x.dim()", "x.numel()", "x.stride()", "x.is_contiguous()", "x.T.is_contiguous()", "x.element_size()", "t.cat([x,x],1)", "t.stack([x,x],0)", "t.sum(x,1)", "t.mean(x,dim=0)", "t.exp(x)", "t.softmax(x,dim=1)", "t.max(x,1)[0]", "t.matmul(x,x.T)", "t.zeros(2,3)", "t.ones((2,))", "t.full((2,2),3.0)", "t.eye(3)", "t.arange(5)", "t.arange(1,4,0.5)", "t.linspace(0,1,5)", "t.zeros_like(x)", "t.full_like(x,2)", "x.new_zeros(2)", "t.tensor([1,2,3]).sum()", "t.tensor([True,False]).sum()", "t.tensor([1,2])/2", "t.tensor([3,7])//2", "t.tensor([-7])%3", "x.diag()", "x[:3,:3].trace()", "x.any()", "(x>0).all()", "(x>0).any(1)", "x.nonzero()", "x.ravel()", "x.swapaxes(0,1)", "x[1,2]", "x[-1]", "x[:,1:3]", "x[...,0]", "x[[0,2]]", "x[x>1]", "x[t.tensor([1,0])]", "x[:,[0,3]]", "x[0,None]", "x[1:,::2]", "len(x)", "x.count_nonzero()", "x.expm1()", "x.roll(1,0)", "x.diff()", "x.nan_to_num()", "x.frac()", "x.is_floating_point()", "x.mul(2).sub(1).div(2)", "x.unflatten(0,(1,3))", "x.movedim(0,1)", "x.hypot(x)", "x.logaddexp(x)", "x.ndim", "x.shape", "x.nelement()", "x.cpu()", "x.view_as(x)", "x.expand_as(x)", "x.aminmax()[0]", "x.diag()", "x[0].outer(x[1])", "x.float().sum()"]


def outcome(call, t):
    """(value, gradient by x or None)"""
    x = t.tensor(a, requires_grad=True)
    got = eval(call, {"t": t, "x": x, "i": i})
    if not hasattr(got, "detach"):
        return np.asarray(got), None
    value = got.detach().numpy()
    if got.requires_grad:
        (got * t.tensor(np.random.default_rng(0).normal(size=value.shape).astype(value.dtype))).sum().backward()
    return value, None if x.grad is None else x.grad.numpy()


@pytest.mark.parametrize("call", CALLS)
def test_a_call_is_pytorchs(call):
    torch = pytest.importorskip("torch")
    (value, gradient), (want, slope) = outcome(call, dy), outcome(call, torch)
    assert value.shape == want.shape and value.dtype == want.dtype
    np.testing.assert_allclose(value.astype(float), want.astype(float), rtol=1e-6 if value.dtype == np.float32 else 1e-12, atol=1e-14)
    assert gradient is None or slope is not None
    if slope is not None:                    # of a step function ours is None, PyTorch's is zeros
        np.testing.assert_allclose(np.zeros_like(slope) if gradient is None else gradient, slope, rtol=1e-6, atol=1e-12)


def test_values_without_pytorch():
    """A sample of the table against NumPy, for where PyTorch is not installed."""
    x = dy.tensor(a)
    for got, want in ((x.var(1), a.var(1, ddof=1)), (x.cumsum(0), a.cumsum(0)), (x.topk(2)[0], -np.sort(-a, 1)[:, :2]), (x.tril(), np.tril(a)), (x.roll(1, 0), np.roll(a, 1, 0)),
                      (x.max(1)[1], a.argmax(1)), (x.flip(0), a[::-1]), (x.norm(), np.linalg.norm(a)), (x.logaddexp(x.T[0, 0]), np.logaddexp(a, a[0, 0]))):
        np.testing.assert_allclose(got.numpy(), want)
