"""Character-level language models on each of the three cells, as textbooks
write them: plain NumPy float64, one step at a time, nothing hidden.

A model reads a text character by character and predicts the next one. Vectors
are rows, B texts at a time. x is a character as a one-hot row [B, V], h the
previous hidden state [B, H], [h, x] the two side by side [B, H+V]. A gate is a
fully connected layer on [h, x] with a matrix [H+V, H], hidden state on top.
After the cell's step, for all three,

    y = h'·Wy + by        p = softmax(y)        loss = −log p[next character]

and the loss of a stretch of text is the mean over its B·T characters.

Gradients. Write d_v = ∂loss/∂v, with the four rules of ``common``. Softmax and
cross-entropy together have a simple derivative: −log p[k] = −y[k] +
log Σ exp(y), whose slope in y is p, minus 1 at the right character k:

    d_y = (p − onehot(k)) / (B·T)
    d_Wy = h'ᵀ·d_y      d_by = Σ_batch d_y      d_h' = d_y·Wyᵀ + dh_next

dh_next is what the step after sends back to h': h' is read twice, by its own
prediction and by the next step. So the steps are walked through in reverse,
each handing a dh_next (an LSTM a dc_next too) to the one before it, and each
adding its share to the gradients of the weights, which all steps have in
common. That is backpropagation through time. It is complete within a stretch.
From one stretch to the next the state is carried on but no gradient is sent
back: the last step of a stretch starts with dh_next = 0.

A layer v = X·W + b sends back d_X = d_v·Wᵀ and adds Xᵀ·d_v to d_W and
Σ_batch d_v to d_b. Of d_X only the columns of h are of use: x is data.

    >>> from fused_rnn import reference
    >>> model = reference.CharacterGru(vocabulary_size=3, units=8)
    >>> adam, state = reference.Adam(0.05), None
    >>> for _ in range(60):
    ...     loss, gradients, state = model.loss([0, 1, 2], [1, 2, 0], state)
    ...     adam.update(model.weights, gradients)
    >>> bool(loss < 0.1)
    True
"""

import abc

import numpy as np

from fused_rnn.reference.common import sigmoid


def _softmax(y):
    e = np.exp(y - y.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _log_softmax(y):
    y = y - y.max(axis=-1, keepdims=True)
    return y - np.log(np.exp(y).sum(axis=-1, keepdims=True))


class CharacterModel(abc.ABC):
    """What the three models share; a subclass has the step of its cell.

    Attributes:
      weights: a dict of float64 arrays; the names are the subclass'.
    """

    states = ("h",)
    output = ("Wy", "by")  # the names of the output layer's weights

    def __init__(self, vocabulary_size, units, seed=0):
        """Draws weights: matrices normal with variance 1/rows, biases zero.

        Args:
          vocabulary_size: V, how many characters there are.
          units: H.
          seed: of the draw.
        """
        self.vocabulary_size = vocabulary_size
        self.units = units
        rng = np.random.default_rng(seed)
        self.weights = {
            name: rng.normal(0.0, shape[0] ** -0.5, shape)
            if len(shape) == 2 else np.zeros(shape)
            for name, shape in self.shapes().items()
        }

    @abc.abstractmethod
    def shapes(self):
        """The shape of each weight under its name."""

    @abc.abstractmethod
    def step(self, x, state):
        """One step.

        Args:
          x: [B, V], one-hot.
          state: a tuple of [B, H] for each of ``states``.

        Returns:
          The new state, and what ``step_back`` needs.
        """

    @abc.abstractmethod
    def step_back(self, d_state, kept, gradients):
        """The step in reverse; adds to the dict gradients.

        Args:
          d_state: a tuple, the gradient of each new state.
          kept: what ``step`` returned.

        Returns:
          A tuple, the gradient of each state before.
        """

    def first_state(self, batch=1):
        """Zeros [batch, H] for each of ``states``."""
        return tuple(np.zeros((batch, self.units)) for _ in self.states)

    def loss(self, inputs, targets, state=None):
        """Loss of a stretch of text, its gradient, and the state to carry on.

        Args:
          inputs: [T] or [B, T] integers, the characters.
          targets: likewise, the character that follows each of them.
          state: a tuple of [B, H] for each of ``states``, such as the last
            call returned; or None for zeros.

        Returns:
          loss, the mean cross-entropy in nats a character; a dict of the
          gradients of ``weights``; the state after the last character.

        Raises:
          ValueError: inputs and targets differ in shape, or are no characters.
        """
        inputs = self._characters("inputs", inputs)
        targets = self._characters("targets", targets)
        if inputs.shape != targets.shape:
            raise ValueError(
                f"targets: expected shape {inputs.shape}, that of inputs, got "
                f"{targets.shape}"
            )
        batch, steps = inputs.shape
        state = self.first_state(batch) if state is None else state
        one_hot = np.eye(self.vocabulary_size)

        loss, kept, hidden, d_y = 0.0, [], [], []
        for t in range(steps):
            state, values = self.step(one_hot[inputs[:, t]], state)
            y = self._connected(*self.output, state[0])
            right = one_hot[targets[:, t]]
            loss -= np.sum(right * _log_softmax(y)) / inputs.size
            kept.append(values)
            hidden.append(state[0])
            d_y.append((_softmax(y) - right) / inputs.size)

        gradients = {name: np.zeros_like(w) for name, w in self.weights.items()}
        d_next = self.first_state(batch)
        for t in reversed(range(steps)):
            d_h = self._connected_back(
                *self.output, hidden[t], d_y[t], gradients
            )
            d_state = (d_h + d_next[0], *d_next[1:])
            d_next = self.step_back(d_state, kept[t], gradients)
        return loss, gradients, state

    def sample(self, first, count, state=None, temperature=1.0, seed=0):
        """Writes text: each character is drawn from what the model predicts
        after the one before.

        Args:
          first: the character to start from; not part of the result.
          count: how many to draw.
          state: the state before first, a tuple of [1, H]; None for zeros.
          temperature: divides y before the softmax. Below 1 likely characters
            become likelier still.
          seed: of the draws.

        Returns:
          A list of count integers, and the state to go on from.
        """
        (character,) = self._characters("first", [first])[0]
        rng = np.random.default_rng(seed)
        state = self.first_state() if state is None else state
        one_hot = np.eye(self.vocabulary_size)
        written = []
        for _ in range(count):
            state, _ = self.step(one_hot[[character]], state)
            y = self._connected(*self.output, state[0])
            p = _softmax(y / temperature)
            character = int(rng.choice(self.vocabulary_size, p=p[0]))
            written.append(character)
        return written, state

    def _characters(self, name, values):
        """Values as [B, T], checked."""
        values = np.atleast_2d(np.asarray(values))
        limit = self.vocabulary_size
        whole = np.issubdtype(values.dtype, np.integer)
        if not (whole and np.all((0 <= values) & (values < limit))):
            raise ValueError(
                f"{name}: expected integers from 0 to {limit - 1}, got "
                f"{values.dtype} from {np.min(values)} to {np.max(values)}"
            )
        return values

    def _connected(self, W, b, X):
        """A fully connected layer X·W + b; W and b are names of weights."""
        return X @ self.weights[W] + self.weights[b]

    def _connected_back(self, W, b, X, d, gradients):
        """Its gradient: adds that of the weights, returns d_X."""
        gradients[W] += X.T @ d
        gradients[b] += d.sum(axis=0)
        return d @ self.weights[W].T

    def _gate_shapes(self, gates):
        """Shapes of gates on [h, x] and of the output layer."""
        rows = self.units + self.vocabulary_size
        shapes = {}
        for gate in gates:
            shapes["W" + gate] = (rows, self.units)
            shapes["b" + gate] = (self.units,)
        return {**shapes, **self._output_shapes()}

    def _output_shapes(self):
        W, b = self.output
        return {
            W: (self.units, self.vocabulary_size), b: (self.vocabulary_size,)
        }


class CharacterGru(CharacterModel):
    """A gated recurrent unit; weights Wz, Wr, Wh, Wy, bz, br, bh, by.

        z  = σ([h, x]·Wz + bz)           update gate
        r  = σ([h, x]·Wr + br)           reset gate
        h̃  = tanh([r∘h, x]·Wh + bh)      candidate
        h' = (1−z)∘h + z∘h̃

    This is the polarity of Chung et al., Empirical Evaluation of Gated
    Recurrent Neural Networks, 2014: z says how much is new. The fused op,
    Keras and ``reference.gru`` have h' = z∘h + (1−z)∘c, where it says how much
    stays. Since 1 − σ(a) = σ(−a) the two are the same function with z's
    weights negated, and the reset gate acts before the product. With H = units

        kernel           = [−Wz[H:]  Wr[H:]  Wh[H:]]       reset_after=False
        recurrent_kernel = [−Wz[:H]  Wr[:H]  Wh[:H]]
        bias             = [−bz      br      bh    ]

    which ``weights.textbook_gru_to_keras`` and its inverse do. They are linear
    and only move and negate, so they map gradients as they map weights.

    Gradients. h' = (1−z)∘h + z∘h̃ sends back

        to h̃:  d_h'∘z      to z:  d_h'∘(h̃−h)      to h:  d_h'∘(1−z)

    and with a bar for a value before its activation, σ' = σ(1−σ) and
    tanh' = 1−tanh²,

        d_h̃̄ = d_h'∘z ∘ (1−h̃²)        [d_rh, ·] = d_h̃̄·Whᵀ
        d_z̄ = d_h'∘(h̃−h) ∘ z∘(1−z)    d_r̄ = d_rh∘h ∘ r∘(1−r)
        [d_hx, ·] = d_z̄·Wzᵀ + d_r̄·Wrᵀ
        d_h = d_h'∘(1−z) + d_rh∘r + d_hx
    """

    def shapes(self):
        return self._gate_shapes(("z", "r", "h"))

    def step(self, x, state):
        (h,) = state
        hx = np.concatenate([h, x], axis=1)
        z = sigmoid(self._connected("Wz", "bz", hx))
        r = sigmoid(self._connected("Wr", "br", hx))
        rhx = np.concatenate([r * h, x], axis=1)
        candidate = np.tanh(self._connected("Wh", "bh", rhx))
        new = (1.0 - z) * h + z * candidate
        return (new,), (h, hx, z, r, rhx, candidate)

    def step_back(self, d_state, kept, gradients):
        (d_h,) = d_state
        h, hx, z, r, rhx, candidate = kept
        d_h_bar = d_h * z * (1.0 - candidate**2)
        d_z_bar = d_h * (candidate - h) * z * (1.0 - z)
        d_rhx = self._connected_back("Wh", "bh", rhx, d_h_bar, gradients)
        d_rh = d_rhx[:, : self.units]
        d_r_bar = d_rh * h * r * (1.0 - r)
        d_hx = self._connected_back("Wz", "bz", hx, d_z_bar, gradients)
        d_hx += self._connected_back("Wr", "br", hx, d_r_bar, gradients)
        return (d_h * (1.0 - z) + d_rh * r + d_hx[:, : self.units],)


class CharacterLstm(CharacterModel):
    """A long short-term memory; weights Wf, Wi, Wc, Wo, Wy, bf, bi, bc, bo, by.

        f = σ([h, x]·Wf + bf)       forget gate
        i = σ([h, x]·Wi + bi)       input gate
        c̃ = tanh([h, x]·Wc + bc)    candidate
        o = σ([h, x]·Wo + bo)       output gate
        c' = f∘c + i∘c̃
        h' = o∘tanh(c')

    The forget gate's bias starts at 1, so that a new model remembers. The
    state is (h, c). To Keras' weights, with H = units:

        kernel           = [Wi[H:]  Wf[H:]  Wc[H:]  Wo[H:]]
        recurrent_kernel = [Wi[:H]  Wf[:H]  Wc[:H]  Wo[:H]]
        bias             = [bi      bf      bc      bo    ]

    which ``weights.textbook_lstm_to_keras`` and its inverse do.

    Gradients. What reaches c' is dc_next, from the next step, and what comes
    through h':

        d_c' = dc_next + d_h'∘o∘(1−tanh²(c'))
        d_ō = d_h'∘tanh(c') ∘ o∘(1−o)       d_f̄ = d_c'∘c ∘ f∘(1−f)
        d_ī = d_c'∘c̃ ∘ i∘(1−i)              d_c̃̄ = d_c'∘i ∘ (1−c̃²)
        [d_h, ·] = d_f̄·Wfᵀ + d_ī·Wiᵀ + d_c̃̄·Wcᵀ + d_ō·Woᵀ
        d_c = d_c'∘f
    """

    states = ("h", "c")

    def __init__(self, vocabulary_size, units, seed=0):
        super().__init__(vocabulary_size, units, seed)
        self.weights["bf"][:] = 1.0

    def shapes(self):
        return self._gate_shapes(("f", "i", "c", "o"))

    def step(self, x, state):
        h, c = state
        hx = np.concatenate([h, x], axis=1)
        f = sigmoid(self._connected("Wf", "bf", hx))
        i = sigmoid(self._connected("Wi", "bi", hx))
        candidate = np.tanh(self._connected("Wc", "bc", hx))
        o = sigmoid(self._connected("Wo", "bo", hx))
        new = f * c + i * candidate
        return (o * np.tanh(new), new), (c, hx, f, i, candidate, o, new)

    def step_back(self, d_state, kept, gradients):
        d_h, dc_next = d_state
        c, hx, f, i, candidate, o, new = kept
        d_c = dc_next + d_h * o * (1.0 - np.tanh(new) ** 2)
        bars = {
            "f": d_c * c * f * (1.0 - f),
            "i": d_c * candidate * i * (1.0 - i),
            "c": d_c * i * (1.0 - candidate**2),
            "o": d_h * np.tanh(new) * o * (1.0 - o),
        }
        d_hx = sum(
            self._connected_back("W" + gate, "b" + gate, hx, d, gradients)
            for gate, d in bars.items()
        )
        return d_hx[:, : self.units], d_c * f


class CharacterRnn(CharacterModel):
    """The plain recurrent network; weights Wxh, Whh, Why, bh, by.

        h' = tanh(x·Wxh + h·Whh + bh)

    Here the matrices of x and h are stored apart, and the output layer's is
    Why. They are Keras' as they are: kernel = Wxh, recurrent_kernel = Whh,
    bias = bh, which ``weights.textbook_rnn_to_keras`` and its inverse do.

    Gradients.

        d_h̄ = d_h' ∘ (1−h'²)        d_h = d_h̄·Whhᵀ
        d_Wxh = xᵀ·d_h̄     d_Whh = hᵀ·d_h̄     d_bh = Σ_batch d_h̄
    """

    output = ("Why", "by")

    def shapes(self):
        return {
            "Wxh": (self.vocabulary_size, self.units),
            "Whh": (self.units, self.units),
            "bh": (self.units,),
            **self._output_shapes(),
        }

    def step(self, x, state):
        (h,) = state
        from_x = self._connected("Wxh", "bh", x)
        new = np.tanh(from_x + h @ self.weights["Whh"])
        return (new,), (x, h, new)

    def step_back(self, d_state, kept, gradients):
        (d_h,) = d_state
        x, h, new = kept
        d_bar = d_h * (1.0 - new**2)
        self._connected_back("Wxh", "bh", x, d_bar, gradients)
        gradients["Whh"] += h.T @ d_bar
        return (d_bar @ self.weights["Whh"].T,)
