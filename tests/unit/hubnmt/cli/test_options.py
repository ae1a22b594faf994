"""Options of the command line reach the model with the names and types they have in Python."""

from hubnmt.cli.arguments import add_model_options
from hubnmt.cli.options import load_translator
from hubnmt.cli.parser import Parser


def test_the_model_is_loaded_as_asked(model: str) -> None:
    parser = Parser(prog="x")
    add_model_options(parser)
    translator = load_translator(parser.parse_args(["--model", model, "--dtype", "bfloat16"]))
    assert {str(parameter.dtype) for parameter in translator.model.parameters()} == {
        "torch.bfloat16"
    }
