import { runFolder } from "../vectors/folder.js";
import { ONE_SHOT, SERVER_ALONE } from "../vectors/one-shot.js";

runFolder("one-shot", ONE_SHOT, SERVER_ALONE);
