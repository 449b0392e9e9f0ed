"""ONNX Runtime's GRU, both conventions, LSTM and RNN; inference only."""

from fused_rnn.bench import worker


def load():
    import onnxruntime

    import onnx_model

    def prepare(case):
        if case.training:
            raise worker.Unsupported("inference only")
        case.require("float32")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = worker.THREADS
        options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            onnx_model.model(case), options, providers=["CPUExecutionProvider"]
        )
        # Bound once: a run copies nothing and allocates no output.
        binding = session.io_binding()
        value = onnxruntime.OrtValue.ortvalue_from_numpy
        inputs = {
            name: value(array)
            for name, array in onnx_model.inputs(case).items()
        }
        for name, tensor in inputs.items():
            binding.bind_ortvalue_input(name, tensor)
        state = (1, case.batch, case.units)
        shapes = {
            "y": (case.steps, *state),
            **dict.fromkeys(onnx_model.last_states(case), state),
        }
        outputs = {
            name: onnxruntime.OrtValue.ortvalue_from_shape_and_type(
                shape, "float32"
            )
            for name, shape in shapes.items()
        }
        for name, tensor in outputs.items():
            binding.bind_ortvalue_output(name, tensor)

        def infer():
            session.run_with_iobinding(binding)
            # What keeps the bound memory alive.
            return inputs, outputs

        return infer, lambda result: onnx_model.results(
            case, *(tensor.numpy() for tensor in result[1].values())
        )

    return {"ONNX Runtime": onnxruntime.__version__}, prepare


worker.serve(load)
