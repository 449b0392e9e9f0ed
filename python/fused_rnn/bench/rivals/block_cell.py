"""TensorFlow's own GRUBlockCell, with the gradient that TensorFlow 1 gave it."""


def register_gradient(tf):
    """TensorFlow 2 has both kernels and no gradient: this is the formula."""

    @tf.RegisterGradient("GRUBlockCell")
    def gradient(op, *d_outputs):
        x, h_prev, w_ru, w_c, b_ru, b_c = op.inputs
        r, u, c, _ = op.outputs
        # It knows the gradient of h alone.
        d_h = d_outputs[3]
        d_x, d_h_prev, d_c_bar, d_r_bar_u_bar = tf.raw_ops.GRUBlockCellGrad(
            x=x, h_prev=h_prev, w_ru=w_ru, w_c=w_c, b_ru=b_ru, b_c=b_c, r=r,
            u=u, c=c, d_h=d_h,
        )
        d_w_ru = tf.matmul(
            tf.concat([x, h_prev], 1), d_r_bar_u_bar, transpose_a=True
        )
        d_w_c = tf.matmul(
            tf.concat([x, h_prev * r], 1), d_c_bar, transpose_a=True
        )
        return (
            d_x, d_h_prev, d_w_ru, d_w_c,
            tf.raw_ops.BiasAddGrad(out_backprop=d_r_bar_u_bar),
            tf.raw_ops.BiasAddGrad(out_backprop=d_c_bar),
        )
