"""OpenVINO's GRU, both conventions, LSTM and RNN; inference only."""

from fused_rnn.bench import worker


def load():
    import openvino

    import onnx_model

    core = openvino.Core()

    def prepare(case):
        if case.training:
            raise worker.Unsupported("inference only")
        case.require("float32")
        compiled = core.compile_model(
            core.read_model(onnx_model.model(case)), "CPU",
            {
                "INFERENCE_NUM_THREADS": worker.THREADS,
                "NUM_STREAMS": 1,
                # Its default is bfloat16 where the processor has it.
                "INFERENCE_PRECISION_HINT": "f32",
            },
        )
        request = compiled.create_infer_request()
        for name, array in onnx_model.inputs(case).items():
            request.set_tensor(name, openvino.Tensor(array))

        def infer():
            request.infer()
            return request

        names = ("y", *onnx_model.last_states(case))
        return infer, lambda request: onnx_model.results(
            case, *(request.get_tensor(name).data for name in names)
        )

    return {"OpenVINO": openvino.get_version().split("-")[0]}, prepare


worker.serve(load)
