"""JAX: a scan over the steps, a GRU's both conventions, compiled by jit.

As an experienced user would write it: the product of the inputs is taken out
of the loop, and the recurrent product is one for all gates where it can be.
"""

import functools

from fused_rnn.bench import worker


def load():
    import os

    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp
    from jax.nn import sigmoid

    def gru(x, h0, kernel, recurrent_kernel, bias, reset_after):
        units = h0.shape[1]
        input_bias = bias[0] if reset_after else bias
        projected = x @ kernel + input_bias

        def after(h, p):
            q_z, q_r, q_c = jnp.split(h @ recurrent_kernel + bias[1], 3, axis=1)
            p_z, p_r, p_c = jnp.split(p, 3, axis=1)
            z, r = sigmoid(p_z + q_z), sigmoid(p_r + q_r)
            h = z * h + (1 - z) * jnp.tanh(p_c + r * q_c)
            return h, h

        def before(h, p):
            gates = p[:, : 2 * units] + h @ recurrent_kernel[:, : 2 * units]
            z, r = jnp.split(sigmoid(gates), 2, axis=1)
            candidate = p[:, 2 * units:] + (r * h) @ recurrent_kernel[
                :, 2 * units:
            ]
            h = z * h + (1 - z) * jnp.tanh(candidate)
            return h, h

        last, outputs = jax.lax.scan(
            after if reset_after else before, h0, projected
        )
        return outputs, last

    def lstm(x, h0, c0, kernel, recurrent_kernel, bias):
        def step(states, p):
            h, c = states
            i, f, g, o = jnp.split(p + h @ recurrent_kernel, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * jnp.tanh(g)
            h = sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        last, outputs = jax.lax.scan(step, (h0, c0), x @ kernel + bias)
        return outputs, *last

    def simple_rnn(x, h0, kernel, recurrent_kernel, bias):
        def step(h, p):
            h = jnp.tanh(p + h @ recurrent_kernel)
            return h, h

        last, outputs = jax.lax.scan(step, h0, x @ kernel + bias)
        return outputs, last

    def prepare(case):
        x, *others = case.arguments()
        arguments = typed(jax, case, worker.time_major(x), *others)
        forward = {
            "gru": functools.partial(gru, reset_after=case.reset_after),
            "lstm": lstm, "rnn": simple_rnn,
        }[case.cell]
        return computations(jax, case, forward, arguments)

    return {"JAX": jax.__version__}, prepare


def typed(jax, case, *arrays):
    """JAX arrays of the case's type."""
    if case.dtype == "float64":
        jax.config.update("jax_enable_x64", True)
    return [jax.numpy.asarray(array, case.dtype) for array in arrays]


def computations(jax, case, forward, arguments, batch_major=False):
    """(call, read) of a function from arguments to (outputs, *last states).

    Used for Keras on JAX too.
    """

    def canonical(array):
        return array if batch_major else array.swapaxes(0, 1)

    if not case.training:
        infer = jax.jit(forward)
        return (
            lambda: jax.block_until_ready(infer(*arguments)),
            lambda result: case.named(canonical(result[0]), result[1:]),
        )
    d_outputs = case.d_outputs
    if not batch_major:
        d_outputs = worker.time_major(d_outputs)
    d_outputs, = typed(jax, case, d_outputs)

    @jax.jit
    def train(d_outputs, *arguments):
        (outputs, *states), gradient = jax.vjp(forward, *arguments)
        return outputs, states, gradient(
            (d_outputs, *map(jax.numpy.zeros_like, states))
        )

    def read(result):
        outputs, states, (d_x, *others) = result
        return case.named(canonical(outputs), states, [canonical(d_x), *others])

    return lambda: jax.block_until_ready(train(d_outputs, *arguments)), read


if __name__ == "__main__":
    worker.serve(load)
