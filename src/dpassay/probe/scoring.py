"""How well a model fits one record: the score of a release where none is given."""

from typing import Any

from dpassay.errors import InvalidTarget


def fit_of(model: Any, x: Any, y: Any) -> float:
    """How well a torch model fits one record; it is asked in evaluation mode, and set back."""
    import torch

    weight = next(model.parameters())
    inputs = torch.as_tensor(x, device=weight.device)
    inputs = inputs.to(weight.dtype) if inputs.is_floating_point() else inputs
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            predicted = model(inputs[None])[0].double()
            return float(_fit(predicted, torch.as_tensor(y, device=weight.device)))
    finally:
        for module, training in modes:
            module.training = training


def _fit(predicted: Any, y: Any) -> Any:
    """Log odds of the class, or minus the squared error.

    With p = softmax(z)_y, log(p / (1 - p)) = z_y - log sum of exp(z_j) over the others; also if z
    holds log probabilities. One output is the log odds of class 1.
    """
    if y.is_floating_point() and y.numel() == predicted.numel():
        return -((predicted.reshape(-1) - y.reshape(-1)) ** 2).mean()
    if y.numel() == 1 and predicted.numel() == 1:
        return predicted.reshape(()) * (2 * y.reshape(()) - 1)
    if y.numel() == 1 and predicted.ndim == 1:
        others = predicted.clone()
        others[int(y)] = -float("inf")
        return predicted[int(y)] - others.logsumexp(dim=0)
    raise InvalidTarget(
        f"the model's output has shape {tuple(predicted.shape)} and y {tuple(y.shape)}: there is "
        "no score by default. Pass a function of the model: probe.release(model, score=...)."
    )
